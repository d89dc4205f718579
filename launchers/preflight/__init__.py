"""Checks of pods, GPUs and network before a run costs anything.

May import ``flags``, ``gang`` and below.
"""

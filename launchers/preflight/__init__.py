"""Checks of pods, GPUs and network before training starts.

May import ``flags``, ``gang`` and below.
"""

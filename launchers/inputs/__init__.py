"""The inputs of a run: their paths, and the checks before anything is downloaded or trained.

May import ``hub``, ``rules`` and below.
"""

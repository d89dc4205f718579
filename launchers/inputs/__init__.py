"""The inputs of a run: their paths, and what can be refused before a GPU is used.

May import ``hub``, ``rules`` and below.
"""

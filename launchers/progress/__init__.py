"""``progress.json``: the state of a run, written by rank 0.

May import ``metrics``, ``gang`` and below.
"""

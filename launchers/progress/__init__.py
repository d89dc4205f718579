"""``progress.json``: where a run is, written by rank 0.

May import ``metrics``, ``gang`` and below.
"""

"""The workspace: outputs made once and whole, markers, manifests, locks, checkpoints.

May import ``system`` and below.
"""

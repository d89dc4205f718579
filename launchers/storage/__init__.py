"""The workspace: outputs made once and atomically, markers, manifests, locks, checkpoints.

May import ``system`` and below.
"""

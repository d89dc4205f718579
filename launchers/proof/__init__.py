"""Proofs of patches on unknown sources: ms-swift trains a tiny model on CPU with and without each.

``prove`` runs in the launcher, ``run`` in a process that imports ms-swift once and forks for each
case, ``trace`` in the case. Nothing of a run imports this package.
"""

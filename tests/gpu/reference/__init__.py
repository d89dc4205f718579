"""The precomputed reference compared with the reference in every step."""

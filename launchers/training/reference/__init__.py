"""Compute the reference's log-probabilities once, store them, and train with them."""

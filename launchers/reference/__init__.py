"""Compute the reference's log-probabilities once, store them, and train with them.

All of it runs in the training processes.
"""

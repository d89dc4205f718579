"""Proof of learning: our training compared with upstream's own, on the same pairs and seeds."""

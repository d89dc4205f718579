"""Proof of learning: our training beside upstream's own, on the same pairs and seeds."""

"""Distribute packs over replicas, report how full they are, pad them, compute a prompt once."""

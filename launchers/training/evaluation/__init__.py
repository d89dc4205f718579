"""Evaluate the policy on the held-out rows in Megatron, and remember the best checkpoint."""

"""Evaluate the policy on the held-out rows in Megatron, and remember the best checkpoint.

``evaluations`` reads their rows of the metrics; the others run in the training processes.
"""

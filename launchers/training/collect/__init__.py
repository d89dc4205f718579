"""Collect the metrics of each optimizer step in the trainer."""

"""Measure each optimizer step in the trainer and write it to ``metrics.jsonl``."""

"""Measurement of many flags in one start, by switching the running model."""

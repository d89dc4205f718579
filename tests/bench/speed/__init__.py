"""Measurement of profiles on the same model and data."""

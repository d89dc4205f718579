"""Profiles measured on the same model and data."""

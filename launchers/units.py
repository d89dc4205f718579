"""Units of sizes."""

GIB = 1 << 30
"""Bytes of a GiB."""

"""Units of sizes."""

from __future__ import annotations

GIB = 1 << 30
"""Bytes of a GiB."""

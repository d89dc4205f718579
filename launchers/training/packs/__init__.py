"""Distribute packs over data-parallel ranks, report how full they are, and pad them to one size."""

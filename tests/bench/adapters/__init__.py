"""Stacked adapters of experts compared with upstream's."""

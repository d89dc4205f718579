"""Runs through the rendered JobSet, the local runner and the launcher."""

"""Measures how fast gangs are admitted, bound and started: `make bench-cluster`."""

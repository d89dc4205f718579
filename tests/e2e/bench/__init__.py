"""Measurement of gang admission, binding and start: `make bench-cluster`."""

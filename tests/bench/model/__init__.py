"""The random model of the measurements, and its data."""

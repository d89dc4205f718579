"""The random model that is measured, and its data."""

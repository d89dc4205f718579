"""Wrong configurations as data, and what refuses each: ``python -m tests.refusals``."""

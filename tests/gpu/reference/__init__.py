"""The reference taken once against the reference in every step."""

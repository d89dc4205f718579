"""Training variants that must give the same log-probabilities."""

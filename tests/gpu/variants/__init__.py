"""Ways of training that must give the same log-probabilities."""

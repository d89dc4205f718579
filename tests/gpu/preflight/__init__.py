"""The checks before training, with faults made on purpose."""

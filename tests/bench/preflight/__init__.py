"""The checks before training, on healthy GPUs and with injected faults."""

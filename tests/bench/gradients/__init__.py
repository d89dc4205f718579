"""Gradients of one step, compared with upstream's in fp32 parameter by parameter."""

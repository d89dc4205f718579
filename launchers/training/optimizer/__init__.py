"""The optimizer's step: Adam in chunks, the gradients' norm by fused kernels, NaN found once a step."""

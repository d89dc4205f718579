"""The optimizer's step: Adam in chunks, the gradients' norm, and the check for NaN."""

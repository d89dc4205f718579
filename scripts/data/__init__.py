"""`megatron-dpo data`: what a dataset has, as ms-swift reads it."""

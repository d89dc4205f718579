"""`megatron-dpo plan`: what a release would run, and whether it can, before it costs a GPU."""

"""`megatron-dpo plan`: predict what a release runs, whether it fits, and how long it takes."""

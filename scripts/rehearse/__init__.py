"""`megatron-dpo rehearse`: rehearse a release on its cluster or on this machine."""

"""The ``megatron-dpo`` command, run outside the cluster."""

"""`megatron-dpo sweep`: one run for each combination of values, on one queue and workspace."""

"""`megatron-dpo demo`: DPO of a tiny model on real preference pairs, on two local nodes."""

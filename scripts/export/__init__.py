"""`megatron-dpo verify`, `sign` and `card`: an export's folder, without its run or a cluster."""

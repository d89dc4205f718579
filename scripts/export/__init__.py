"""`megatron-dpo verify`, `sign` and `push`: an export's folder, without its run or a cluster."""

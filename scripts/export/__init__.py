"""`megatron-dpo verify`, `sign`, `card` and `push`: an export's folder, without a cluster."""

"""`megatron-dpo local`: run a rendered JobSet on this machine, each pod as a process."""

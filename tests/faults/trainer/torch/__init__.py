"""Stands for torch in the fault matrix: only ``torch.distributed.run`` is there."""

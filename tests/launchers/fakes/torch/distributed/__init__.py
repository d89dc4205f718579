"""Stands for torch in process tests: only ``torch.distributed.run`` is there."""

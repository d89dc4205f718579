"""Loaded into ms-swift's transformers trainer: seals a checkpoint once every rank has saved."""

from pathlib import Path
from typing import Any

import torch.distributed as dist
from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map

from launchers.checkpoint import seal


class SealCallback(TrainerCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json``; ``on_save`` runs on every rank, each after its own files."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for all ranks' files, then seal on the rank that is process zero of the world."""
        if dist.is_initialized():
            dist.barrier()
        if state.is_world_process_zero:
            seal(Path(args.output_dir) / f"checkpoint-{state.global_step}", state.global_step)


callbacks_map["seal"] = SealCallback

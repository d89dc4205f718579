"""Loaded into ms-swift's transformers trainer: seals a checkpoint once every rank has saved.

The trainer deletes older checkpoints (``save_total_limit``) before ``on_save``: with a limit of one
a kill between the two would leave none that is sealed. So they are deleted after the seal.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
import transformers.trainer
from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map

from launchers.storage.checkpoint import seal

ROTATIONS = (
    (transformers.trainer, "rotate_checkpoints"),
    (transformers.trainer.Trainer, "_rotate_checkpoints"),
)
"""Where transformers 5 and 4 delete older checkpoints."""
_due: list[Callable[[], object]] = []
"""What the trainer has asked to delete, and not got yet."""


class SealCallback(TrainerCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json``; ``on_save`` runs on every rank, each after its own files."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for all ranks' files, then seal on the rank that is process zero of the world."""
        if dist.is_initialized():
            dist.barrier()
        if state.is_world_process_zero:
            seal(Path(args.output_dir) / f"checkpoint-{state.global_step}", state.global_step)
        while _due:
            _due.pop()()


def postpone(owner: Any, name: str) -> None:
    """Let a function of upstream, where there is one, run after the next seal."""
    inner = getattr(owner, name, None)
    if inner is not None:
        setattr(owner, name, lambda *args, **kwargs: _due.append(partial(inner, *args, **kwargs)))


for rotation in ROTATIONS:
    postpone(*rotation)
callbacks_map["seal"] = SealCallback

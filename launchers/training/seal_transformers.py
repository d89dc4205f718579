"""Seal a checkpoint of ms-swift's transformers trainer once every rank has saved.

The trainer deletes older checkpoints (``save_total_limit``) before ``on_save``: with a limit of 1 a
kill between the two would leave no sealed checkpoint. Deletion is therefore postponed until after
the seal, and what interrupted saves have left is deleted before: it would count against the limit.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
import transformers.trainer
from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map

from launchers.storage import retention, run_lease
from launchers.storage.checkpoint import seal
from launchers.training.loading import record
from launchers.training.stop import finished

ROTATIONS = (
    (transformers.trainer, "rotate_checkpoints"),
    (transformers.trainer.Trainer, "_rotate_checkpoints"),
)
"""Functions of transformers 5 and 4 that delete older checkpoints."""
_postponed: list[Callable[[], object]] = []
"""Deletions that the trainer has asked for since the last seal."""


class SealCallback(TrainerCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json``; ``on_save`` runs on every rank, each after its own files."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for all ranks' files, then seal on the rank that is process zero of the world."""
        if dist.is_initialized():
            dist.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            record(folder)
            seal(folder, state.global_step)
            retention.apply(folder.parent, None)
        run_lease.check()
        while _postponed:
            _postponed.pop()()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record that training has ended."""
        stopped = control.should_training_stop
        finished.record(state.global_step, state.max_steps, is_stopped=stopped)


def postpone(owner: Any, name: str) -> None:
    """Let a function of transformers, if it exists, run after the next seal."""
    inner = getattr(owner, name, None)
    if inner is not None:
        setattr(
            owner, name, lambda *args, **kwargs: _postponed.append(partial(inner, *args, **kwargs))
        )


def install() -> None:
    """Register the callback ``seal``, and postpone the deletion of older checkpoints."""
    for rotation in ROTATIONS:
        postpone(*rotation)
    callbacks_map["seal"] = SealCallback

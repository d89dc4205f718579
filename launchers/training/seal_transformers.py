"""Prepare the folder of a save of ms-swift's transformers trainer; seal it once all have saved.

The trainer deletes older checkpoints (``save_total_limit``) before ``on_save``: with a limit of 1 a
kill between the two would leave no sealed checkpoint. It also deletes what a user has moved in.
Therefore ``storage/retention.py`` deletes in its place, after the seal, with the same limit.
"""

from pathlib import Path
from typing import Any

import torch.distributed as dist
import transformers.trainer
from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map

from launchers.stop import finished
from launchers.storage import retention
from launchers.storage.checkpoint import seal
from launchers.training.checkpoint_record import record

ROTATIONS = (
    (transformers.trainer, "rotate_checkpoints"),
    (transformers.trainer.Trainer, "_rotate_checkpoints"),
)
"""Functions of transformers 5 and 4 that delete older checkpoints."""
_save = transformers.trainer.Trainer._save_checkpoint


class SealCallback(TrainerCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json``; ``on_save`` runs on every rank, each after its own files."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for all ranks' files, then seal on the rank that is process zero of the world."""
        if dist.is_initialized():
            dist.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            record(folder)
            if seal(folder, state.global_step):
                best = state.best_model_checkpoint
                keep = [Path(best).name] if best else []
                retention.apply(folder.parent, args.save_total_limit, keep)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record that training has ended."""
        stopped = control.should_training_stop
        finished.record(state.global_step, state.max_steps, is_stopped=stopped)


def _save_checkpoint(self: Any, *given: Any, **named: Any) -> Any:
    """Save as upstream, into a folder that is marked and empty."""
    if self.is_world_process_zero():
        retention.prepare(Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}")
    if dist.is_initialized():
        dist.barrier()
    return _save(self, *given, **named)


def install() -> None:
    """Register ``seal``, prepare saves, and take the deletion of older checkpoints over."""
    transformers.trainer.Trainer._save_checkpoint = _save_checkpoint
    for owner, name in ROTATIONS:
        if hasattr(owner, name):
            setattr(owner, name, lambda *args, **kwargs: None)
    callbacks_map["seal"] = SealCallback

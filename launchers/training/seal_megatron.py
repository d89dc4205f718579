"""Prepare the folder of a save of ms-swift's Megatron trainer; seal it once every rank has saved.

The trainer deletes older checkpoints before ``on_save``; here they are deleted after the seal, see
``storage/retention.py``.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers import logs
from launchers.rehearsal import early_read
from launchers.stop import finished
from launchers.storage import disk, node_disk, retention
from launchers.storage.checkpoint import digest_own, merged, seal
from launchers.storage.node_disk import Written
from launchers.system import lookup
from launchers.system.threads import begin
from launchers.training.checkpoint_record import record
from launchers.training.saving import background


class SealCallback(MegatronCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json`` after Megatron's shards and the safetensors are on disk."""

    limit: int | None = None
    """Complete checkpoints to keep; None keeps all."""

    def on_train_begin(self) -> None:
        """Take the deletion of older checkpoints over from the trainer."""
        self.limit, self.args.save_total_limit = self.args.save_total_limit, None

    def on_step_end(self) -> None:
        """End the run if a write in the background has failed."""
        if (writes := background.current()) is not None:
            writes.check()

    def on_save(self, output_dir: str) -> None:
        """Wait for all ranks' files, then seal on global rank 0; in the background if possible."""
        folder, rank, step = Path(output_dir), dist.get_rank(), self.state.iteration
        best = self.state.best_model_checkpoint
        digest = partial(digest_own, folder, rank)
        best_name = Path(best).name if best else ""
        # the merged model is complete; all of it is read while the checkpoint is written
        is_merged_sealed = begin(lambda: rank > 0 or _seal_merged(folder, step))
        if finished.is_last(step, self.args.train_iters) and rank == 0:
            early_read.begin(folder.parent.parent, [folder, merged(folder)])
        complete = partial(_complete, folder, step, self.limit, best_name, is_merged_sealed)
        writes = background.current()
        if writes is None or not writes.has_copied:
            digest()
            dist.barrier()
            if rank == 0:
                complete()
            return
        dist.barrier()  # the folder exists, with what upstream writes without a copy
        writes.start(step, digest, complete, partial(_announce, folder, step))
        if step >= self.args.train_iters:
            background.finish()  # training ends
            dist.barrier()

    def on_train_end(self) -> None:
        """Record that training has ended."""
        finished.record(self.state.iteration, self.args.train_iters)


def _announce(folder: Path, step: int, written: list[Written]) -> None:
    """Note what each rank has written to its node's disk: from there it could be completed."""
    record(folder)
    node_disk.announce(folder, written)
    print(logs.format_event("checkpoint on the nodes' disks", step=step), flush=True)


def _seal_merged(folder: Path, step: int) -> bool:
    """Seal the merged model next to a checkpoint; return False if the seal is refused."""
    return not lookup.is_dir(merged(folder)) or seal(merged(folder), step) is not None


def _complete(
    folder: Path,
    step: int,
    limit: int | None,
    best: str,
    is_merged_sealed: Callable[[], bool],
    seconds: float = 0.0,
) -> None:
    """Seal a checkpoint whose files are all written, then delete those in excess.

    Where a seal is refused, all others stay and training continues.
    ``best`` is kept beyond the ``limit``; ``seconds`` is of the write in the background.
    """
    if not is_merged_sealed():
        return  # first: a sealed checkpoint has all that is exported
    record(folder)
    if not seal(folder, step):
        return
    disk.remove(node_disk.copying(folder))
    if seconds:
        written = logs.format_event("checkpoint written", step=step, seconds=round(seconds, 2))
        print(written, flush=True)
    retention.apply(folder.parent, limit, keep=[best] if best else [])


def save_checkpoint(self: Any, save: Callable[[Any], None]) -> None:
    """Save, in the background or not, into a folder that is marked and empty."""
    background.finish()
    if dist.get_rank() == 0:
        retention.prepare(Path(self.args.output_dir) / f"checkpoint-{self.state.iteration}")
    dist.barrier()
    save(self)


def install() -> None:
    """Register the callback ``seal``, and prepare saves of either kind."""
    save = BaseMegatronTrainer.save_checkpoint  # as features before have left it
    BaseMegatronTrainer.save_checkpoint = lambda self: save_checkpoint(self, save)
    megatron_callbacks_map["seal"] = SealCallback

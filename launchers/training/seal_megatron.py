"""Seal a checkpoint of ms-swift's Megatron trainer once every rank has saved.

The trainer deletes older checkpoints before ``on_save``; here they are deleted after the seal, see
``storage/retention.py``.
"""

from pathlib import Path

import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from launchers.storage import retention
from launchers.storage.checkpoint import digest_own, merged, seal
from launchers.training.loading import record


class SealCallback(MegatronCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json`` after Megatron's shards and the safetensors are on disk."""

    limit: int | None = None
    """Complete checkpoints to keep; None keeps all."""

    def on_train_begin(self) -> None:
        """Take the deletion of older checkpoints over from the trainer."""
        self.limit, self.args.save_total_limit = self.args.save_total_limit, None

    def on_save(self, output_dir: str) -> None:
        """Wait for all ranks' shards, then seal on global rank 0."""
        digest_own(Path(output_dir), dist.get_rank())
        dist.barrier()
        if dist.get_rank() == 0:
            folder, step = Path(output_dir), self.state.iteration
            if merged(folder).is_dir():  # first: a sealed checkpoint has all that is exported
                seal(merged(folder), step)
            record(folder)
            seal(folder, step)
            best = self.state.best_model_checkpoint
            retention.apply(folder.parent, self.limit, keep=[Path(best).name] if best else [])


def install() -> None:
    """Register the callback ``seal``."""
    megatron_callbacks_map["seal"] = SealCallback

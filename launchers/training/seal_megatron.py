"""Seal a checkpoint of ms-swift's Megatron trainer once every rank has saved."""

from pathlib import Path

import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from launchers.storage.checkpoint import merged, seal
from launchers.training.loading import record


class SealCallback(MegatronCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json`` after Megatron's shards and the safetensors are on disk."""

    def on_save(self, output_dir: str) -> None:
        """Wait for all ranks' shards, then seal on global rank 0."""
        dist.barrier()
        if dist.get_rank() == 0:
            folder, step = Path(output_dir), self.state.iteration
            if merged(folder).is_dir():  # first: a sealed checkpoint has all that is exported
                seal(merged(folder), step)
            record(folder)
            seal(folder, step)


def install() -> None:
    """Register the callback ``seal``."""
    megatron_callbacks_map["seal"] = SealCallback

"""Seal a checkpoint of ms-swift's Megatron trainer once every rank has saved."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from launchers import logs
from launchers.storage.checkpoint import merged, seal
from launchers.training.loading import record
from launchers.training.saving import background


class SealCallback(MegatronCallback):  # type: ignore[misc]
    """Writes ``COMPLETE.json`` after Megatron's shards and the safetensors are on disk."""

    def on_step_end(self) -> None:
        """End the run if a write in the background has failed."""
        if (writes := background.current()) is not None:
            writes.check()

    def on_save(self, output_dir: str) -> None:
        """Wait for all ranks' files, then seal on global rank 0; in the background if possible."""
        folder, step = Path(output_dir), self.state.iteration
        writes = background.current()
        dist.barrier()
        if writes is not None and writes.has_copied:

            def complete(seconds: float) -> None:
                _seal(folder, step)
                print(
                    logs.format_event("checkpoint written", step=step, seconds=round(seconds, 2)),
                    flush=True,
                )
                self.trainer._rotate_checkpoints(self.args.output_dir)

            writes.start(step, complete)
            if self.state.iteration >= self.args.train_iters:
                background.finish()  # training ends
                dist.barrier()
        elif dist.get_rank() == 0:
            _seal(folder, step)


def _seal(folder: Path, step: int) -> None:
    if merged(folder).is_dir():  # first: a sealed checkpoint has all that is exported
        seal(merged(folder), step)
    record(folder)
    seal(folder, step)


def install() -> None:
    """Register the callback ``seal``."""
    megatron_callbacks_map["seal"] = SealCallback

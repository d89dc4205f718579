"""Write Megatron's distributed checkpoints in the background.

megatron-core plans a save (which rank writes which tensor, into which file), copies the tensors to
the host, writes, and gathers where each tensor lies (``dist_checkpointing/strategies/torch.py``,
``async_utils.py: AsyncRequest.execute_sync``). Here the plan is upstream's; what follows it is
``background.py``'s. Upstream's own ``async_save`` forks or spawns a process at each save, has a
collective in each step, and by default needs a package that the image does not have.

The copy, the write and the seal of a checkpoint follow each other, and the next save waits for
them.
"""

import os
import queue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.strategies.torch import TorchDistSaveShardedStrategy
from swift.megatron.trainers import base
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers import logs
from launchers.plan.footprint import WEIGHT
from launchers.standby import kept_memory
from launchers.storage import node_disk
from launchers.system.host_memory import available
from launchers.training.saving import background
from launchers.training.saving.background import Writes
from launchers.training.saving.staging import Staging

_callbacks = TorchDistSaveShardedStrategy._get_save_and_finalize_callbacks
_save, _collect = BaseMegatronTrainer.save_checkpoint, base.gc_collect
_setup = BaseMegatronTrainer.setup_model_training


class Request:
    """Stands for megatron-core's ``AsyncRequest`` of a save that is not asynchronous."""

    def __init__(self, writes: Writes, writer: Any, planned: Any) -> None:
        """Keep the plan.

        ``planned``: the writer, on rank 0 the index of the checkpoint, and a group.
        """
        self._writes, self._writer, self._index = writes, writer, planned[1]

    def execute_sync(self) -> None:
        """Copy this rank's tensors to host memory."""
        transforms = [self._writer.transforms] if hasattr(self._writer, "transforms") else []
        files = [
            (os.fspath(path), key, objects, tensors)
            for path, key, (objects, tensors) in self._writer.write_buckets or ()
        ]
        self._writes.copy(files, transforms, lambda all: self._writer.finish(self._index, all))


def _get_save_and_finalize_callbacks(
    self: Any, writer: Any, planned: Any, *given: Any, **named: Any
) -> Any:
    writes = background.current()
    if writes is None:
        return _callbacks(self, writer, planned, *given, **named)
    return Request(writes, writer, planned)


def save_checkpoint(self: Any) -> None:
    """Save as upstream, with room on the node's disk.

    The feature ``seal_megatron`` calls it once all ranks have written the checkpoint before.
    """
    writes = background.current()
    if writes is not None and writes.staging is not None:
        writes.staging.make_room(Path(self.args.output_dir))
        dist.barrier()
    if writes is not None and not self.args.save_safetensors:
        # upstream frees memory for what it gathers: nothing here
        base.gc_collect = _collect_nothing
    try:
        _save(self)
    finally:
        base.gc_collect = _collect


def _collect_nothing() -> None:
    pass


def setup_model_training(self: Any) -> None:
    """Reserve host memory when training begins; without enough of it saves stop training."""
    _setup(self)
    size, processes = estimate(self.optimizer), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    room, kept = available(), kept_memory.kept_bytes(os.environ)
    fits = torch.tensor([background.fits(size, room, processes, kept)], dtype=torch.int)
    fits = fits.cuda() if torch.cuda.is_available() else fits
    dist.all_reduce(fits, op=dist.ReduceOp.MIN)
    is_first = dist.get_rank() == 0
    if not bool(fits.item()):
        if is_first:
            logs.warning(
                "saves stop training until they are written: a copy does not fit into host memory",
                bytes=size * processes,
                available=room,
            )
        kept_memory.clear_own(os.environ)
        return
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    staging = Staging(rank, os.environ) if os.environ.get(node_disk.FOLDER) else None
    writes = Writes(rank, dist.get_world_size(), store, staging)
    writes.reserve(size, pins=torch.cuda.is_available())
    background.enable(writes)


def estimate(optimizer: Any) -> int:
    """Return the bytes that this rank writes in a save: its optimizer's state, its part of weights.

    A chained optimizer has the parameters of all its parts in its groups.
    """
    total = 0
    config = optimizer.config
    if config.use_precision_aware_optimizer:
        moments = config.exp_avg_dtype.itemsize + config.exp_avg_sq_dtype.itemsize
        is_short = getattr(config, "store_param_remainders", False)
    else:
        moments, is_short = 8, False
    for group in optimizer.param_groups:
        for weight in group["params"]:
            master = 2 if is_short and weight.dtype == torch.bfloat16 else 4
            total += weight.numel() * (moments + master + WEIGHT)
    return total


def install() -> None:
    """Replace upstream's functions."""
    results: queue.Queue[Any] = queue.Queue()
    # upstream's starts a process at the first save, which imports the trainer once more
    filesystem_async.get_write_results_queue = lambda: results
    TorchDistSaveShardedStrategy._get_save_and_finalize_callbacks = _get_save_and_finalize_callbacks
    BaseMegatronTrainer.save_checkpoint = save_checkpoint
    BaseMegatronTrainer.setup_model_training = setup_model_training

"""Memory of a node beside its GPUs: processes, the offloaded optimizer, what a save copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchers.plan.adapter import IN_PEFT, trained, whole
from launchers.plan.model_config import Shape
from launchers.plan.shard import Shard
from launchers.plan.training_job import Training

PROCESS = 16 * 2**30
"""Bytes of a rank with its data loader's workers: an estimate."""
OFFLOADED = 22
"""Bytes of a parameter whose optimizer is on the host. fp32 weights and moments are 12, the pinned
gradients 4.0 to 8.0, since PyTorch rounds each up to a power of two (``aten/src/ATen/core/
CachingHostAllocator.h``): 17.3 with 768-wide experts. 22 is the least that explains the two runs
that were measured, 0.8 and 0.6 of 30.5 B parameters on 4 ranks: they needed more than 489 and 436
GiB; what takes the rest is not known."""
SHARD_FILE = 5e9
"""Bytes of one safetensors file (``max_shard_size``), which rank 0 gathers before it writes."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Bytes on the fullest node."""

    processes: float
    offload: float
    """The optimizer's part in host memory."""
    save: float
    """What writing a checkpoint adds for its while."""

    @property
    def total(self) -> float:
        """Return the peak."""
        return self.processes + self.offload + self.save


def host(shape: Shape, training: Training, shards: Sequence[Shard]) -> Host:
    """Return a node's memory.

    The offloaded optimizer is megatron-core's ``optimizer/cpu_offloading/hybrid_optimizer.py``. A
    checkpoint with the optimizer is copied from the GPUs before it is written
    (``dist_checkpointing``): what is trained, each rank its share of the weights that others have
    too (``FullyParallelSaveStrategyWrapper``).

    Args:
        shape: of the model.
        training: the job.
        shards: of each pipeline stage.
    """
    layout = training.layout
    ranks = layout.gpus_per_node
    parts = [trained(shape, training, shard) for shard in shards]
    # a node may hold ranks of the fullest stage only
    owned = max(sum(p.owned(layout, distributed=training.distributed_optimizer)) for p in parts)
    offload = owned * training.optimizer_offload * OFFLOADED
    weights = 2 * max(sum(part.owned(layout, distributed=True)) for part in parts)
    on_gpu = owned * 12 * (1 - training.optimizer_offload)
    state = ranks * (on_gpu + weights) if training.saves_optimizer else 0.0
    return Host(
        processes=ranks * PROCESS,
        offload=ranks * offload,
        save=max(state, _gathered(shape, training)),
    )


def _gathered(shape: Shape, training: Training) -> float:
    """Return the most of the safetensors that rank 0 holds at once (``save_weights``).

    An adapter is one file, a model many; an adapter's checkpoint writes both where it is merged.
    """
    model = SHARD_FILE + 2 * shape.embedding_parameters
    if training.tuner == "full":
        return model
    own = 2 * whole(shape, training, IN_PEFT)
    return own if training.merges == "never" else max(own, model)

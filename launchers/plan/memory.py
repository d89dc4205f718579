"""Predicted GPU memory of a job, itemised, for the fullest rank.

What is kept (weights, gradients, reference, optimizer) is arithmetic; activations, logits and
buffers follow the sources in the modules they come from; three constants were fitted by least
squares over measured and published runs (``scripts/calibrate``, which also prints the errors). A
fourth, for the allocator's fragmentation, came out as zero: those runs used expandable segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from launchers.plan import activations as activations
from launchers.plan import optimizer_memory as optimizer
from launchers.plan.adapter import trained
from launchers.plan.host_memory import host
from launchers.plan.model_config import Shape
from launchers.plan.shard import Shard, shards
from launchers.plan.training_job import Training

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The constants that were fitted."""

    imbalance: float = 1.0
    """Rows of the fullest rank's experts over the mean, where a job's own are not known; it stands
    for all that grows with them. Its least, 1, fits best."""
    context: float = 4.927
    """GiB outside of PyTorch: CUDA context, NCCL's communicators, cuBLAS."""
    staging: float = 4.988
    """GiB on the GPU while an optimizer in host memory steps. Not explained by the source: seen in
    all runs with offload."""


FIT = Fit()
SPREAD = 0.035
"""Root mean square of the relative error, each row predicted by a fit of the others: a job that is
nearer to the card's memory than this is tight."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """GiB of the fullest rank; ``host`` is per node and no part of ``total``."""

    weights: float
    gradients: float
    reference: float
    optimizer: float
    """State, and what a step needs beyond the room that activations have left."""
    activations: float
    logits: float
    buffers: float
    """All-to-all and permuted rows of the experts."""
    overhead: float
    """What is outside of PyTorch, and what an optimizer in host memory takes here."""
    host: float
    per_stage: tuple[float, ...]
    """Totals by pipeline stage."""
    context: float
    """The part of ``overhead`` that PyTorch's own counters do not see."""

    @property
    def total(self) -> float:
        """Return the GiB that must fit in the card."""
        kept = self.weights + self.gradients + self.reference + self.optimizer
        return kept + self.activations + self.logits + self.buffers + self.overhead

    @property
    def reserved(self) -> float:
        """Return what ``torch.cuda.max_memory_reserved`` would say: ms-swift's ``memory(GiB)``."""
        return self.total - self.context


class _Items(NamedTuple):
    """Bytes of one rank."""

    weights: float
    gradients: float
    reference: float
    optimizer: float
    activations: float
    logits: float
    buffers: float
    overhead: float


def predict(shape: Shape, training: Training, fit: Fit = FIT) -> Memory:
    """Predict the memory of a job.

    Args:
        shape: of the model.
        training: the job; its layout must pass the rules.
        fit: constants, for the calibration.

    Raises:
        LaunchError: CONFIG if the layers can't be spread over the stages.
    """
    parts = list(shards(shape, training.layout, head=training.head))
    stages = [_stage(shape, training, shard, fit) for shard in parts]
    totals = tuple(sum(items) / GIB for items in stages)
    fullest = stages[totals.index(max(totals))]
    node = host(shape, training, parts)
    return Memory(
        **{name: value / GIB for name, value in fullest._asdict().items()},
        host=node.total / GIB,
        per_stage=totals,
        context=fit.context,
    )


def _stage(shape: Shape, training: Training, shard: Shard, fit: Fit) -> _Items:
    """Return the bytes of a rank of one stage."""
    part = trained(shape, training, shard)
    dense, experts = part.owned(training.layout, distributed=training.distributed_optimizer)
    reference = 2.0 + training.reference_grads * training.grad_bytes
    acts, logits, buffers = _work(shape, training, shard, fit)
    passing = optimizer.passing(training, dense, experts)
    beside = part.parameters if training.tuner == "lora" else 0.0
    return _Items(
        weights=2.0 * (shard.parameters + beside),
        gradients=training.grad_bytes * part.parameters,
        reference=reference * shard.parameters if training.reference else 0.0,
        # the step reuses what the backward pass has freed
        optimizer=optimizer.kept(training) * (dense + experts)
        + max(0.0, passing - acts - logits - buffers),
        activations=acts,
        logits=logits,
        buffers=buffers,
        overhead=(fit.context + fit.staging * training.offloads) * GIB,
    )


def _work(shape: Shape, training: Training, shard: Shard, fit: Fit) -> tuple[float, float, float]:
    """Return activations, logits and buffers of one stage."""
    local = activations.tokens(training, shape.positions) / training.layout.cp
    moe, rows = 0.0, 0.0
    if shard.moe_layers:
        rows = activations.rows(shape, training, local, fit.imbalance)
        moe = activations.layer(shape, training, local, rows)
    plain = shard.layers - shard.moe_layers
    dense = activations.layer(shape, training, local, 0.0) if plain else 0.0
    mean = (moe * shard.moe_layers + dense * plain) / max(1, shard.layers)
    kept = activations.kept(shape, training, shard, local, mean)
    working = activations.working(training, shard, max(moe, dense))
    return (
        kept + working + activations.scores(shape, training, shape.positions, local),
        activations.logits(shape, training, shard, local),
        _sent(shape, training, local, rows),
    )


def _sent(shape: Shape, training: Training, local: float, rows: float) -> float:
    """Return the bytes of what one layer's experts get and give (``moe/token_dispatcher.py``)."""
    layout = training.layout
    if training.dispatcher != "allgather":  # sent and received rows, and their sorted copy
        return 6.0 * shape.hidden * rows
    # all tokens of the group, those of own experts sorted, and their sum for all tokens
    gathered = local / activations.split(training) * layout.ep * layout.etp if rows else 0.0
    return 2.0 * shape.hidden * (2.0 * gathered + rows)

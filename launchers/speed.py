"""Predicted time of a step, by arithmetic and bandwidths, with the band of its own errors.

A microbatch costs matrix products at a part of the card's peak, the rest of a layer at the speed of
its memory, a fixed time for each layer with experts, and what it sends. Five constants were fitted
on measured and published runs (``scripts/calibrate``); ``low`` and ``high`` are the spread of their
residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchers import flops
from launchers import memory_activations as activations
from launchers import speed_traffic as traffic
from launchers.cards import Card
from launchers.memory_adapter import trained
from launchers.memory_shard import Shard, shards
from launchers.shape import Shape
from launchers.speed_traffic import Traffic
from launchers.training import Training


@dataclass(frozen=True, kw_only=True)
class Link:
    """The network between nodes."""

    name: str
    """E.g. ``ib``, ``roce``, ``tcp``."""
    gbs: float
    """GB/s that one node sends to others, all its adapters together."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The constants that were fitted."""

    products: float = 0.831
    """Part of the peak that matrix products of dense layers reach."""
    grouped: float = 0.85
    """The same of experts, uneven routing included."""
    passing: float = 8.38
    """How often a layer's saved activations pass through the card's memory in one pass."""
    layer: float = 4.55e-3
    """Seconds of a layer with experts in one pass that are neither: launches, and the host waiting
    for row counts."""
    host_adam: float = 2.66e9
    """Parameters that a node's CPUs update in a second."""
    spread: float = 0.25
    """Standard deviation of the logarithm of predicted over measured, rows left out in turn."""


PACE = Pace()
A2A_HIDDEN = 0.37
"""Part of the all-to-all that an overlapped schedule hides: a profile in NVIDIA-NeMo/
Megatron-Bridge ``skills/nemo-mbridge-perf-moe-hardware-configs/SKILL.md``."""
EXPOSED = 0.5
"""Part of data parallel traffic that waits when it is overlapped; an estimate, not measured."""
GPU_ADAM_BYTES = 30.0
"""Bytes that a step of Adam on the GPU reads and writes for each parameter."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What a step takes. Seconds are of one step; tokens count chosen and rejected once."""

    step_seconds: float
    low: float
    """Seconds if the prediction is as far off as its residuals (one standard deviation)."""
    high: float
    tokens_per_step: float
    tokens_per_second_per_gpu: float
    mfu: float
    """Model FLOP of the step over the card's peak."""
    compute_seconds: float
    bubble_seconds: float
    optimizer_seconds: float
    communication: dict[str, float]
    """Seconds that are not hidden, by link: ``nvlink`` and the link's name."""


def predict(
    shape: Shape,
    training: Training,
    card: Card,
    link: Link,
    s_eff: float,
    *,
    tokens: float = 0.0,
    pace: Pace = PACE,
) -> Speed:
    """Predict the time of a step.

    Args:
        shape: of the model.
        training: the job; its layout must pass the rules.
        card: the GPU.
        link: the network between nodes.
        s_eff: sum(L^2) / sum(L) of the sequences' lengths.
        tokens: of a microbatch on average; 0: a full pack, or rows of ``max_length``.
        pace: constants, for the calibration.

    Raises:
        LaunchError: CONFIG if the layers can't be spread over the stages.
    """
    tokens = tokens or activations.usual(training, shape.positions)
    layout, local = training.layout, tokens / training.layout.cp
    parts = list(shards(shape, layout, head=training.head))
    work = max(_microbatch(shape, training, card, part, local, s_eff, pace) for part in parts)
    waits = _waits(shape, training, parts, local, card, link)
    number = max(1, training.microbatches)
    bubble = (layout.pp - 1) / layout.chunks * (work + sum(waits.values()))
    update, after = _step(shape, training, parts, card, link, pace)
    seconds = {name: number * each + after[name] for name, each in waits.items()}
    step = number * work + bubble + update + sum(seconds.values())
    total = tokens * number * layout.dp
    rate = total / step / layout.world
    return Speed(
        step_seconds=step,
        low=step * math.exp(-pace.spread),
        high=step * math.exp(pace.spread),
        tokens_per_step=total,
        tokens_per_second_per_gpu=rate,
        mfu=flops.model(shape, training, s_eff) * rate / (card.peak_tflops * 1e12),
        compute_seconds=number * work,
        bubble_seconds=bubble,
        optimizer_seconds=update,
        communication=seconds,
    )


def _microbatch(
    shape: Shape,
    training: Training,
    card: Card,
    shard: Shard,
    local: float,
    s_eff: float,
    pace: Pace,
) -> float:
    """Return the seconds of one microbatch on one stage, without communication."""
    layout, peak = training.layout, card.peak_tflops * 1e12
    of = flops.parts(shape, s_eff)
    part = shard.layers / shape.layers
    moe = shard.moe_layers / shape.moe_layers if shape.moe_layers else 0.0
    model_passes = flops.passes(training)
    all_passes = model_passes + flops.recomputed(shape, training)
    dense = (of.linear + of.attention) * part * all_passes + of.head * shard.head * model_passes
    split = activations.split(training) if shard.moe_layers else layout.tp
    products = local * dense / layout.tp / (peak * pace.products)
    products += local * of.experts * moe * all_passes / split / (peak * pace.grouped)
    rows = local / split * shape.topk * layout.etp
    saved = activations.layer(shape, training, local, rows if shard.moe_layers else 0.0)
    memory = saved * shard.layers + activations.logits(shape, training, shard, local)
    memory *= pace.passing * all_passes / (card.hbm_gbs * 1e9)
    return products + memory + pace.layer * shard.moe_layers * all_passes


def _waits(
    shape: Shape, training: Training, parts: list[Shard], local: float, card: Card, link: Link
) -> dict[str, float]:
    """Return what the slowest stage waits for in one microbatch, by link."""
    shown = 1 - (A2A_HIDDEN if training.overlap_a2a else 0.0)
    stages = [_seconds(_sent(shape, training, part, local), card, link) for part in parts]
    slowest = max(stages, key=lambda seconds: sum(seconds.values()))
    return {name: seconds * shown for name, seconds in slowest.items()}


def _seconds(sent: Traffic, card: Card, link: Link) -> dict[str, float]:
    across = sent.across / (link.gbs * 1e9)
    return {"nvlink": sent.inside / (card.nvlink_gbs * 1e9), link.name: across}


def _sent(shape: Shape, training: Training, shard: Shard, local: float) -> Traffic:
    rows = local / activations.split(training) * shape.topk
    moe = traffic.experts(shape, training, shard, rows)
    tensor = traffic.sequence(shape, training, shard, local)
    return moe + tensor + traffic.pipeline(shape, training, local)


def _step(
    shape: Shape,
    training: Training,
    parts: list[Shard],
    card: Card,
    link: Link,
    pace: Pace,
) -> tuple[float, dict[str, float]]:
    """Return the seconds of the optimizer, and of data parallel traffic by link."""
    part = max((trained(shape, training, p) for p in parts), key=lambda part: part.parameters)
    state = sum(part.owned(training.layout, distributed=training.distributed_optimizer))
    offload = training.optimizer_offload
    on_gpu = state * (1 - offload) * GPU_ADAM_BYTES / (card.hbm_gbs * 1e9)
    on_host = state * offload * training.layout.gpus_per_node / pace.host_adam
    overlaps = training.overlap_grad_reduce and training.overlap_param_gather
    waits = EXPOSED if overlaps else 1.0
    sent = traffic.gradients(training, part.dense, part.experts)
    return on_gpu + on_host, {n: s * waits for n, s in _seconds(sent, card, link).items()}

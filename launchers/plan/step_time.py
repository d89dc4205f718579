"""Predicted time of a step, by arithmetic and bandwidths, with the band of its own errors.

A microbatch costs matrix products at a part of the card's peak, the rest of a layer at the speed of
its memory, and what it sends; or, where that is longer, the time in which the host launches the
layers with experts. ``low`` and ``high`` are the spread of the residuals (``speed_pace``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchers.config.gpu_models import Card
from launchers.plan import activations as activations
from launchers.plan import adapter_time, flops
from launchers.plan import traffic as traffic
from launchers.plan.adapter import trained
from launchers.plan.model_config import Shape
from launchers.plan.pace import (
    A2A_HIDDEN,
    EXPOSED,
    GPU_ADAM_BYTES,
    GROUPED,
    NVLINK,
    PACE,
    PRODUCTS,
    Pace,
)
from launchers.plan.shard import Shard, shards
from launchers.plan.traffic import Traffic
from launchers.plan.training_job import Training


@dataclass(frozen=True, kw_only=True)
class Link:
    """The network between nodes."""

    name: str
    """E.g. ``ib``, ``roce``, ``tcp``."""
    gbs: float
    """GB/s that one node sends to others, all its adapters together."""


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
    """On the GPU, and where it has nothing to do until the host has launched more."""
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
    passes = max(part.moe_layers for part in parts) * _passes(shape, training)
    work += pace.idle * passes * training.host_waits
    work = max(work, pace.host * passes - sum(waits.values()))  # both at once
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
    """Return what one stage's GPU computes of one microbatch, in seconds."""
    layout, peak = training.layout, card.peak_tflops * 1e12
    of = flops.parts(shape, s_eff)
    part = shard.layers / shape.layers
    moe = shard.moe_layers / shape.moe_layers if shape.moe_layers else 0.0
    model_passes, all_passes = flops.passes(training), _passes(shape, training)
    dense = (of.linear + of.attention) * part * all_passes + of.head * shard.head * model_passes
    split = activations.split(training) if shard.moe_layers else layout.tp
    products = local * dense / layout.tp / (peak * PRODUCTS)
    products += local * of.experts * moe * all_passes / split / (peak * GROUPED)
    rows = local / split * shape.topk * layout.etp
    saved = activations.layer(shape, training, local, rows if shard.moe_layers else 0.0)
    memory = saved * shard.layers * all_passes
    memory += activations.logits(shape, training, shard, local) * model_passes
    again = flops.recomputed(shape, training)
    beside = adapter_time.moved(shape, training, shard, local, rows, again)
    return products + (memory * pace.passing + beside) / (card.hbm_gbs * 1e9)


def _passes(shape: Shape, training: Training) -> float:
    """Return how often a layer is passed in a microbatch, recomputing included."""
    return flops.passes(training) + flops.recomputed(shape, training)


def _waits(
    shape: Shape, training: Training, parts: list[Shard], local: float, card: Card, link: Link
) -> dict[str, float]:
    """Return what the slowest stage waits for in one microbatch, by link."""
    shown = 1 - (A2A_HIDDEN if training.overlap_a2a else 0.0)
    stages = [_seconds(_sent(shape, training, part, local), card, link) for part in parts]
    slowest = max(stages, key=lambda seconds: sum(seconds.values()))
    return {name: seconds * shown for name, seconds in slowest.items()}


def _seconds(sent: Traffic, card: Card, link: Link) -> dict[str, float]:
    inside = sent.inside / (card.nvlink_gbs * NVLINK * 1e9)
    return {"nvlink": inside, link.name: sent.across / (link.gbs * 1e9)}


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
    on_host += adapter_time.WEIGHT_SECONDS * max(
        adapter_time.weights(shape, training, part) for part in parts
    )
    overlaps = training.overlap_grad_reduce and training.overlap_param_gather
    waits = EXPOSED if overlaps else 1.0
    sent = traffic.gradients(training, part.dense, part.experts)
    return on_gpu + on_host, {n: s * waits for n, s in _seconds(sent, card, link).items()}

"""Predict the time of a step from arithmetic and bandwidths, with an error band.

A microbatch costs matrix products at a share of the GPU's peak, the rest of a layer at memory
bandwidth, and communication; or, if longer, the time the host needs to launch layers with experts.
``low`` and ``high`` are one standard deviation of the residuals (``Pace.spread``). An adapter adds
memory traffic and optimizer time.
"""

import math
from dataclasses import dataclass

from launchers.config.gpu_models import GpuModel
from launchers.plan import activations, flops, traffic
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import EXPERTS, Shard, layers, shards, trained
from launchers.plan.traffic import Traffic
from launchers.plan.training_job import Training


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The constants that were fitted."""

    passing: float = 4.775
    """Number of times that one pass moves a layer's saved activations through GPU memory."""
    host: float = 6.090e-3
    """Host seconds to launch one pass of a layer with experts, concurrent with the GPU."""
    idle: float = 4.162e-3
    """Seconds of such a pass in which the GPU is idle, where the host waits for it in every
    layer (``Training.host_waits``)."""
    host_adam: float = 2.705e9
    """Parameters that a node's CPUs update in a second."""
    spread: float = 0.20
    """Standard deviation of the logarithm of predicted over measured, each file of rows predicted
    by a fit of the others."""


PACE = Pace()
PRODUCTS = 0.80
"""Part of the peak that matrix products of dense layers reach: 790 of 989 TFLOP/s in the preflight
of H200 (tests/bench/notes/preflight.md)."""
GROUPED = 0.60
"""The same for experts: 3.71 TFLOP of a pack of 16,384 tokens in 6.28 ms, unevenly routed, there
and back (tests/bench/results, experts-h200)."""
NVLINK = 0.67
"""Fraction of the GPU's all-reduce bandwidth that an all-to-all of 235 MiB reaches: 281 and 296 of
431 GB/s in the preflight of 2 and 4 H200 (tests/bench/notes/preflight.md). Used for all
NVLink traffic."""
A2A_HIDDEN = 0.37
"""Part of the all-to-all that an overlapped schedule hides: a profile in NVIDIA-NeMo/
Megatron-Bridge ``skills/nemo-mbridge-perf-moe-hardware-configs/SKILL.md``."""
EXPOSED = 0.5
"""Part of data parallel traffic that waits when it is overlapped; an estimate, not measured."""
GPU_ADAM_BYTES = 93.0
"""Bytes that GPU memory could move in the time of a parameter's Adam step, its moments'
conversions included: 38.1 ms for 1.97e9 on H200 (tests/bench/results, adam-h200)."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The network between nodes."""

    name: str
    """E.g. ``ib``, ``roce``, ``tcp``."""
    gbs: float
    """GB/s that one node sends to others over all its adapters."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Predicted time of a step, in seconds; tokens count chosen and rejected once."""

    step_seconds: float
    low: float
    """Seconds at one standard deviation of the residuals."""
    high: float
    tokens_per_step: float
    tokens_per_second_per_gpu: float
    mfu: float
    """Model FLOPs utilisation: model FLOPs of the step over the peak of the GPU."""
    compute_seconds: float
    """Time on the GPU, including idle time while the host launches kernels."""
    bubble_seconds: float
    optimizer_seconds: float
    communication: dict[str, float]
    """Exposed communication by link: ``nvlink`` and the link's name."""


def predict(
    model: ModelConfig,
    training: Training,
    gpu: GpuModel,
    link: Link,
    s_eff: float,
    *,
    tokens: float = 0.0,
    pace: Pace = PACE,
) -> Speed:
    """Predict the time of a step.

    Args:
        model: sizes of the model.
        training: the job; its layout must pass the rules.
        gpu: the GPU model.
        link: the network between nodes.
        s_eff: sum(L^2) / sum(L) of the sequences' lengths.
        tokens: mean tokens of a microbatch; 0: a full pack, or rows of ``max_length``.
        pace: fitted constants.
    """
    tokens = tokens or activations.usual(training, model.positions)
    layout, local = training.layout, tokens / training.layout.cp
    parts = list(shards(model, layout, head=training.head))
    work = max(_microbatch(model, training, gpu, part, local, s_eff, pace) for part in parts)
    waits = _waits(model, training, parts, local, gpu, link)
    passes = max(part.moe_layers for part in parts) * _passes(model, training)
    work += pace.idle * passes * training.host_waits
    work = max(work, pace.host * passes - sum(waits.values()))  # both at once
    number = max(1, training.microbatches)
    bubble = (layout.pp - 1) / layout.chunks * (work + sum(waits.values()))
    update, after = _step(model, training, parts, gpu, link, pace)
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
        mfu=flops.model_flops(model, training, s_eff) * rate / (gpu.peak_tflops * 1e12),
        compute_seconds=number * work,
        bubble_seconds=bubble,
        optimizer_seconds=update,
        communication=seconds,
    )


def _microbatch(
    model: ModelConfig,
    training: Training,
    gpu: GpuModel,
    shard: Shard,
    local: float,
    s_eff: float,
    pace: Pace,
) -> float:
    """Return the seconds of compute of one microbatch on a GPU of one stage."""
    layout, peak = training.layout, gpu.peak_tflops * 1e12
    of = flops.parts(model, s_eff)
    part = shard.layers / model.layers
    moe = shard.moe_layers / model.moe_layers if model.moe_layers else 0.0
    model_passes, all_passes = flops.passes(training), _passes(model, training)
    dense = (of.linear + of.attention) * part * all_passes + of.head * shard.head * model_passes
    split = activations.split(training) if shard.moe_layers else layout.tp
    products = local * dense / layout.tp / (peak * PRODUCTS)
    products += local * of.experts * moe * all_passes / split / (peak * GROUPED)
    rows = local / split * model.topk * layout.etp
    saved = activations.layer(model, training, local, rows if shard.moe_layers else 0.0)
    memory = saved * shard.layers * all_passes
    memory += activations.logits(model, training, shard, local) * model_passes
    again = flops.recomputed(model, training)
    adapter = adapter_bytes_moved(model, training, shard, local, rows, again, stacked=gpu.groups)
    bandwidth = (gpu.layer_gbs or gpu.hbm_gbs) * 1e9
    return products + (memory * pace.passing + adapter) / bandwidth


def _passes(model: ModelConfig, training: Training) -> float:
    """Return the number of passes through a layer per microbatch, including recomputation."""
    return flops.passes(training) + flops.recomputed(model, training)


def _waits(
    model: ModelConfig,
    training: Training,
    parts: list[Shard],
    local: float,
    gpu: GpuModel,
    link: Link,
) -> dict[str, float]:
    """Return the exposed communication of the slowest stage per microbatch, by link."""
    shown = 1 - (A2A_HIDDEN if training.overlap_a2a else 0.0)
    stages = [_seconds(_sent(model, training, part, local), gpu, link) for part in parts]
    slowest = max(stages, key=lambda seconds: sum(seconds.values()))
    return {name: seconds * shown for name, seconds in slowest.items()}


def _seconds(sent: Traffic, gpu: GpuModel, link: Link) -> dict[str, float]:
    inside = sent.inside / (gpu.nvlink_gbs * NVLINK * 1e9)
    return {"nvlink": inside, link.name: sent.across / (link.gbs * 1e9)}


def _sent(model: ModelConfig, training: Training, shard: Shard, local: float) -> Traffic:
    rows = local / activations.split(training) * model.topk
    moe = traffic.experts(model, training, shard, rows)
    tensor = traffic.sequence(model, training, shard, local)
    return moe + tensor + traffic.pipeline(model, training, local)


def _step(
    model: ModelConfig,
    training: Training,
    parts: list[Shard],
    gpu: GpuModel,
    link: Link,
    pace: Pace,
) -> tuple[float, dict[str, float]]:
    """Return the seconds of the optimizer and of data-parallel traffic by link."""
    part = max((trained(model, training, p) for p in parts), key=lambda part: part.parameters)
    state = sum(part.owned(training.layout, distributed=training.distributed_optimizer))
    offload = training.optimizer_offload
    on_gpu = state * (1 - offload) * GPU_ADAM_BYTES / (gpu.hbm_gbs * 1e9)
    on_host = state * offload * training.layout.gpus_per_node / pace.host_adam
    on_host += ADAPTER_WEIGHT_SECONDS * max(
        adapter_weights(model, training, part, stacked=gpu.groups) for part in parts
    )
    overlaps = training.overlap_grad_reduce and training.overlap_param_gather
    waits = EXPOSED if overlaps else 1.0
    sent = traffic.gradients(training, part.dense, part.experts)
    return on_gpu + on_host, {n: s * waits for n, s in _seconds(sent, gpu, link).items()}


ADAPTER_WEIGHT_SECONDS = 75e-6
"""Host seconds per trained weight in the optimizer step: Megatron copies each gradient to fp32 and
the result back. 0.46 of 1.28 s for 6,148 weights, in a
trace of 12 layers on H200 (tests/bench/results, ablation-lora-12-layers-1xh200)."""
BF16 = 2


def adapter_bytes_moved(
    model: ModelConfig,
    training: Training,
    shard: Shard,
    tokens: float,
    rows: float,
    recomputed: float,
    *,
    stacked: bool = False,
) -> float:
    """Return the memory traffic of the adapter per microbatch, in bytes.

    The forward pass reads the input twice and writes it once, and reads and writes the output three
    times (product, scaling, addition). The backward pass reads the input's gradients four times and
    writes them three times, and reads the output's three times and writes them once. Where adapters
    are ``stacked``, one kernel reads and writes the output once; so it is with experts' gradients
    of the input.
    ``rows`` reach the experts; of ``recomputed`` layers, a share, the forward pass runs twice.
    """
    if training.tuner == "full":
        return 0.0
    total = 0.0
    for layer in layers(model, training, shard):
        through = rows if layer.owner == EXPERTS else tokens
        forward = (3 * layer.inputs + (2 if stacked else 6) * layer.outputs) * (1 + recomputed)
        below = 5 if stacked and layer.owner == EXPERTS else 7
        backward = below * layer.inputs + (2 if stacked else 4) * layer.outputs
        total += layer.number * through * (forward + backward)
    return total * BF16


def adapter_weights(
    model: ModelConfig, training: Training, shard: Shard, *, stacked: bool = False
) -> float:
    """Return the number of adapter weights a GPU steps: two per adapted layer or stack of experts.

    ``stacked``: the adapters of a layer's experts are one weight for each product.
    """
    if training.tuner == "full":
        return 0.0
    found = layers(model, training, shard)
    return sum(2 * layer.number * (1.0 if stacked else layer.experts) for layer in found)

"""Predict the time of a step from arithmetic and bandwidths, with an error band.

A microbatch costs matrix products and attention at a share of the GPU's peak, the rest of a layer
at memory bandwidth, communication, and the gaps between layers; or, if longer, the time the host
needs to launch layers with experts. An adapter adds memory traffic and optimizer time.
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
    """The constants that ``scripts/dev/calibrate`` fits, and the errors that it leaves.

    A pass is forward through one layer with experts; a backward pass counts as ``BACKWARD``.
    """

    passing: float = 3.413
    """Number of times that one pass moves a layer's saved activations through GPU memory."""
    gap: float = 0.755e-3
    """Seconds of a pass in which the GPU waits for the host to launch kernels."""
    idle: float = 5.06e-3
    """The same where the host waits for the GPU in every layer (``Training.host_waits``)."""
    host_adam: float = 2.870e9
    """Parameters that a node's CPUs update in a second."""
    host: float = 5.0e-3
    """Host seconds to launch one pass, concurrent with the GPU. Not fitted: no run of today's
    program was limited by it, and LoRA on one H200 took 5.2 ms (bench-1gpu-lora-table)."""
    near: float = 0.11
    """Largest logarithm of predicted over measured of today's program, each visit predicted by a
    fit of the others: for jobs like those that were measured (``_band``)."""
    spread: float = 0.20
    """Standard deviation of that logarithm over all rows, for everything else."""


PACE = Pace()
MEASURED, MEASURED_GPUS = ("h100-80g", "h200"), 4
"""GPU models and number of GPUs that steps were measured on: today's program on one and two, an
earlier one on four."""
PRODUCTS = 0.80
"""Part of the peak that matrix products of dense layers reach: 790 of 989 TFLOP/s in the preflight
of H200 (tests/bench/notes/preflight.md)."""
GROUPED = 0.665
"""The same for experts: 304 products of 1.23 TFLOP with a layer's experts in 560 and 573 ms of a
traced step on two H200 (tests/bench/results, bench-2gpu-24-layers-ordered)."""
ATTENTION = 0.63
"""The same for attention in long texts: 621 TFLOP/s on H100 for 16,384 tokens (FlashAttention-3,
pytorch/benchmark, pull request 2391)."""
PARTIAL_TILES = 800.0
"""Tokens by which attention takes a text for longer, as its tiles are filled in part: 550 to 1,150
in four traced steps with texts of some 1,000 tokens (tests/bench/results, ``kernels``)."""
ATTENTION_BACKWARD = 3.5
"""Forward passes that attention's backward pass takes: 3.2 to 3.7 in these traces."""
BACKWARD = 2.0
"""Forward passes that move as much memory as a layer's backward pass: a fit of both to ten traces
gives 3.5 and 7.0 times the saved activations, of adapters too."""
NVLINK = 0.67
"""Fraction of the GPU's all-reduce bandwidth that an all-to-all of 235 MiB reaches: 281 and 296 of
431 GB/s in the preflight of 2 and 4 H200 (tests/bench/notes/preflight.md). Used for all
NVLink traffic."""
MEETING = 0.19e-3
"""Seconds that a pass waits for other GPUs with experts and for NCCL to begin: in traced passes
of two H200 144 MB take 0.63 to 0.74 ms, and 0.50 at ``NVLINK`` (``pass_rounds``)."""
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
    """Seconds at the lower end of the band (``Pace.near``, ``Pace.spread``)."""
    high: float
    tokens_per_step: float
    tokens_per_second_per_gpu: float
    mfu: float
    """Model FLOPs utilisation: model FLOPs of the step over the peak of the GPU."""
    compute_seconds: float
    """Time on the GPU, including the gaps in which the host launches kernels."""
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

    Raises:
        LaunchError: CONFIG if the layers cannot be divided among the stages.
    """
    tokens = tokens or activations.usual(training, model.positions)
    layout, local = training.layout, tokens / training.layout.cp
    parts = list(shards(model, layout, head=training.head))
    work = max(_microbatch(model, training, gpu, part, local, s_eff, pace) for part in parts)
    forwards = 1.0 + training.compares + flops.recomputed(model, training)
    passes = max(part.moe_layers for part in parts) * (forwards + BACKWARD)
    waits = _waits(model, training, parts, local, gpu, link)
    if layout.ep * layout.etp > 1:
        waits[max(waits, key=waits.__getitem__)] += MEETING * passes
    work += (pace.idle if training.host_waits else pace.gap) * passes
    work = max(work, pace.host * passes - sum(waits.values()))  # both at once
    number = max(1, training.microbatches)
    bubble = (layout.pp - 1) / layout.chunks * (work + sum(waits.values()))
    update, after = _step(model, training, parts, gpu, link, pace)
    seconds = {name: number * each + after[name] for name, each in waits.items()}
    step = number * work + bubble + update + sum(seconds.values())
    total = tokens * number * layout.dp
    rate = total / step / layout.world
    band = math.exp(_band(model, training, gpu, pace))
    return Speed(
        step_seconds=step,
        low=step / band,
        high=step * band,
        tokens_per_step=total,
        tokens_per_second_per_gpu=rate,
        mfu=flops.model_flops(model, training, s_eff) * rate / (gpu.peak_tflops * 1e12),
        compute_seconds=number * work,
        bubble_seconds=bubble,
        optimizer_seconds=update,
        communication=seconds,
    )


def _band(model: ModelConfig, training: Training, gpu: GpuModel, pace: Pace) -> float:
    """Return the error of a prediction, as a logarithm."""
    layout = training.layout
    host = layout.nodes == 1 and layout.world <= MEASURED_GPUS and gpu.name in MEASURED
    plain = layout.dp == layout.world and model.is_moe
    near = host and plain and not training.offloads and not training.host_waits
    return pace.near if near else pace.spread


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
    of, again = flops.parts(model, s_eff + PARTIAL_TILES), flops.recomputed(model, training)
    part = shard.layers / model.layers
    moe = shard.moe_layers / model.moe_layers if model.moe_layers else 0.0
    forwards, passes = 1.0 + training.compares + again, flops.passes(training)
    labelled = local * training.labelled
    split = activations.split(training) if shard.moe_layers else layout.tp
    dense = local * of.linear * part * (passes + again) + labelled * of.head * shard.head * passes
    moved = local * of.experts * moe * (passes + again)
    attention = local * of.attention * part * (forwards + ATTENTION_BACKWARD)
    products = dense / layout.tp / PRODUCTS + moved / split / GROUPED
    products += attention / layout.tp / ATTENTION
    rows = local / split * model.topk * layout.etp
    saved = activations.layer(model, training, local, rows if shard.moe_layers else 0.0)
    memory = saved * shard.layers * (forwards + BACKWARD)
    memory += activations.logits(model, training, shard, labelled) * (2.0 + training.compares)
    other = adapter_bytes_moved(model, training, shard, local, rows, again, stacked=gpu.groups)
    if training.tuner == "full":  # a gradient is read, and added to the sum of the step
        other += shard.parameters * (2 + 2 * training.grad_bytes)
    return products / peak + (memory * pace.passing + other) / (gpu.hbm_gbs * 1e9)


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

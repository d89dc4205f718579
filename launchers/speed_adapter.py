"""What an adapter adds to the time of a step: bytes beside each layer, and weights to be stepped.

Beside an adapted layer its input is dropped out and multiplied, its output scaled and added, by
kernels of their own (mcore-bridge ``tuners/lora.py``, ``LoraParallelLinear.forward``); what goes
between the adapter's two matrices is too narrow to count. The reference runs without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from launchers.memory_adapter import is_adapted
from launchers.memory_shard import Shard
from launchers.shape import Shape
from launchers.training import Training

WEIGHT_SECONDS = 75e-6
"""Seconds that the host needs for each trained weight in the optimizer's step: Megatron copies its
gradient to fp32 and the result back, one after the other. 0.46 of 1.28 s for 6,148 weights, in a
trace of 12 layers on H200 (tests/gpu/results/ablation-lora-12-layers-1xh200.json)."""
BF16 = 2


class Layer(NamedTuple):
    """Adapted layers of a kind on one GPU."""

    number: int
    inputs: float
    """Elements that go in, in one microbatch."""
    outputs: float
    experts: float = 1.0
    """Each of which has weights of its own."""


def moved(
    shape: Shape, training: Training, shard: Shard, tokens: float, rows: float, recomputed: float
) -> float:
    """Return the bytes that pass through the card's memory for the adapter in one microbatch.

    Forward the input is read twice and written once, the output read thrice and written thrice
    (product, scaling, addition); backward the input's gradients are read four times and written
    thrice, the output's read thrice and written once.

    Args:
        shape: of the model.
        training: the job.
        shard: of one GPU.
        tokens: of the microbatch on this GPU.
        rows: of the same that reach its experts.
        recomputed: the part of the layers that run forward twice.
    """
    total = 0.0
    for layer in _layers(shape, training, shard, tokens, rows):
        forward = (3 * layer.inputs + 6 * layer.outputs) * (1 + recomputed)
        total += layer.number * (forward + 7 * layer.inputs + 4 * layer.outputs)
    return total * BF16


def weights(shape: Shape, training: Training, shard: Shard) -> float:
    """Return how many weights of an adapter a GPU steps: two beside each layer."""
    layers = _layers(shape, training, shard, 0.0, 0.0)
    return sum(2 * layer.number * layer.experts for layer in layers)


def _layers(
    shape: Shape, training: Training, shard: Shard, tokens: float, rows: float
) -> Iterator[Layer]:
    """Yield the layers that an adapter is beside; none where all parameters are trained."""
    if training.tuner == "full":
        return
    tp, etp, named = training.layout.tp, training.layout.etp, training.lora_modules
    hidden, qkv = shape.hidden, shape.q_width + 2 * shape.kv_width
    if is_adapted(named, "self_attention.linear_qkv"):
        yield Layer(shard.layers, tokens * hidden, tokens * qkv / tp)
    if is_adapted(named, "self_attention.linear_proj"):
        yield Layer(shard.layers, tokens * shape.q_width / tp, tokens * hidden)
    moe, experts = shard.moe_layers, shape.experts / training.layout.ep
    for owner, number, on, width, count in (
        ("mlp", shard.layers - moe, tokens, shape.ffn / tp, 1.0),
        ("mlp.shared_experts", moe * (shape.shared_ffn > 0), tokens, shape.shared_ffn / tp, 1.0),
        ("mlp.experts", moe, rows, shape.expert_ffn / etp, experts),
    ):
        if is_adapted(named, f"{owner}.linear_fc1"):
            yield Layer(number, on * hidden, on * 2 * width, count)
        if is_adapted(named, f"{owner}.linear_fc2"):
            yield Layer(number, on * width, on * hidden, count)

"""What an adapter adds to the time of a step: bytes beside each layer, and weights to be stepped.

Beside an adapted layer its input is dropped out and multiplied, its output scaled and added, by
kernels of their own (mcore-bridge ``tuners/lora.py``, ``LoraParallelLinear.forward``); what goes
between the adapter's two matrices is too narrow to count. The reference runs without.
"""

from __future__ import annotations

from launchers.plan.adapter import EXPERTS, layers
from launchers.plan.model_config import Shape
from launchers.plan.shard import Shard
from launchers.plan.training_job import Training

WEIGHT_SECONDS = 75e-6
"""Seconds that the host needs for each trained weight in the optimizer's step: Megatron copies its
gradient to fp32 and the result back, one after the other. 0.46 of 1.28 s for 6,148 weights, in a
trace of 12 layers on H200 (tests/gpu/results/ablation-lora-12-layers-1xh200.json)."""
BF16 = 2


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
    if training.tuner == "full":
        return 0.0
    total = 0.0
    for layer in layers(shape, training, shard):
        forward = (3 * layer.inputs + 6 * layer.outputs) * (1 + recomputed)
        through = rows if layer.owner == EXPERTS else tokens
        total += layer.number * through * (forward + 7 * layer.inputs + 4 * layer.outputs)
    return total * BF16


def weights(shape: Shape, training: Training, shard: Shard) -> float:
    """Return how many weights of an adapter a GPU steps: two beside each layer."""
    if training.tuner == "full":
        return 0.0
    return sum(2 * layer.number * layer.experts for layer in layers(shape, training, shard))

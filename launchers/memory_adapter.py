"""What is trained of a rank's part: all of it, or a LoRA adapter beside it."""

from __future__ import annotations

import dataclasses

from launchers.memory_shard import Shard
from launchers.shape import Shape
from launchers.training import Training

_ALL = "all-linear"


def adapter(shape: Shape, training: Training, shard: Shard) -> tuple[float, float]:
    """Return the adapter's dense and expert parameters of one rank.

    Two matrices of the rank's width beside each linear layer; megatron splits one of them as it
    splits the layer (``swift/megatron/tuners/lora.py``).
    """
    rank, layout = training.lora_rank, training.layout
    named = training.lora_modules
    qkv = shape.q_width + 2 * shape.kv_width
    dense = 0.0
    if _ALL in named or "linear_qkv" in named:
        dense += rank * (shape.hidden + qkv / layout.tp)
    if _ALL in named or "linear_proj" in named:
        dense += rank * (shape.hidden + shape.q_width / layout.tp)
    if _ALL not in named and "linear_fc1" not in named:
        return dense * shard.layers, 0.0
    mlp = rank * (2 * shape.hidden + 3 * shape.ffn / layout.tp)
    shared = rank * (2 * shape.hidden + 3 * shape.shared_ffn / layout.tp) * (shape.shared_ffn > 0)
    expert = rank * (2 * shape.hidden + 3 * shape.expert_ffn / layout.etp)
    dense_mlps = shard.layers - shard.moe_layers
    return (
        dense * shard.layers + mlp * dense_mlps + shared * shard.moe_layers,
        expert * shape.experts / layout.ep * shard.moe_layers,
    )


def trained(shape: Shape, training: Training, shard: Shard) -> Shard:
    """Return the trained parameters of a rank, as a shard of their own."""
    if training.tuner == "full":
        return shard
    dense, experts = adapter(shape, training, shard)
    return dataclasses.replace(shard, dense=dense, experts=experts)

"""What is trained of a rank's part: all of it, or a LoRA adapter beside it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from launchers.layout import Layout
from launchers.memory_shard import Shard, shards
from launchers.shape import Shape
from launchers.training import Training


class Copies(NamedTuple):
    """How often the first matrix of a layer that joins several projections is there."""

    qkv: int = 1
    fc1: int = 1


ONCE = Copies()
IN_PEFT = Copies(qkv=3, fc1=2)
"""Hugging Face has q, k and v, and gate and up apart; PEFT's file holds the matrix for each
(mcore-bridge ``bridge/gpt_bridge.py``: ``lora_A.clone()``)."""


def adapter(
    shape: Shape, training: Training, shard: Shard, copies: Copies = ONCE
) -> tuple[float, float]:
    """Return the adapter's dense and expert parameters of one rank.

    Two matrices of the adapter's rank beside each layer that is adapted, of experts beside each
    expert's. Tensor parallelism splits the one on the side where it splits the layer: the second
    of qkv and fc1, the first of proj and fc2 (mcore-bridge ``tuners/lora.py``). ``all-linear`` is
    neither router nor head (``swift/megatron/utils/utils.py``, ``find_all_linears``). What
    ``modules_to_save`` trains whole is not counted.
    """
    tp, named = training.layout.tp, training.lora_modules

    def mlp(owner: str, width: int, split: int) -> float:
        first = copies.fc1 * shape.hidden + 2 * width / split
        fc1 = is_adapted(named, f"{owner}.linear_fc1") * first
        return fc1 + is_adapted(named, f"{owner}.linear_fc2") * (shape.hidden + width / split)

    heads = copies.qkv * shape.hidden + (shape.q_width + 2 * shape.kv_width) / tp
    attention = is_adapted(named, "self_attention.linear_qkv") * heads
    proj = shape.hidden + shape.q_width / tp
    attention += is_adapted(named, "self_attention.linear_proj") * proj
    shared = mlp("mlp.shared_experts", shape.shared_ffn, tp) * (shape.shared_ffn > 0)
    router = ("all-router" in named or "router" in named) * (shape.hidden + shape.experts)
    dense = attention * shard.layers + (shared + router) * shard.moe_layers
    dense += mlp("mlp", shape.ffn, tp) * (shard.layers - shard.moe_layers)
    experts = mlp("mlp.experts", shape.expert_ffn, training.layout.etp)
    experts *= shape.experts / training.layout.ep * shard.moe_layers
    return training.lora_rank * dense, training.lora_rank * experts


def is_adapted(named: tuple[str, ...], module: str) -> bool:
    """Tell whether a module is among those that are named, by the end of its name as in PEFT.

    >>> is_adapted(("experts.linear_fc1",), "mlp.experts.linear_fc1")
    True
    >>> is_adapted(("experts.linear_fc1",), "mlp.shared_experts.linear_fc1")
    False
    """
    return any(name == "all-linear" or f".{module}".endswith(f".{name}") for name in named)


def whole(shape: Shape, training: Training, copies: Copies = ONCE) -> int:
    """Return the adapter's parameters of the whole model."""
    alone = dataclasses.replace(training, layout=Layout(nodes=1, gpus_per_node=1))
    (shard,) = shards(shape, alone.layout, head=training.head)
    return round(sum(adapter(shape, alone, shard, copies)))


def trained(shape: Shape, training: Training, shard: Shard) -> Shard:
    """Return the trained parameters of a rank, as a shard of their own."""
    if training.tuner == "full":
        return shard
    dense, experts = adapter(shape, training, shard)
    return dataclasses.replace(shard, dense=dense, experts=experts)

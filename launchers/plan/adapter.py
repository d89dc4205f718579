"""What is trained of a rank's part: all of it, or a LoRA adapter beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from launchers.plan.layout import Layout
from launchers.plan.model_config import Shape
from launchers.plan.shard import Shard, shards
from launchers.plan.training_job import Training


class Copies(NamedTuple):
    """How often the first matrix of a layer that joins several projections is there."""

    qkv: int = 1
    fc1: int = 1


EXPERTS = "mlp.experts"
ONCE = Copies()
IN_PEFT = Copies(qkv=3, fc1=2)
"""Hugging Face has q, k and v, and gate and up apart; PEFT's file holds the matrix for each
(mcore-bridge ``bridge/gpt_bridge.py``: ``lora_A.clone()``)."""


class Layer(NamedTuple):
    """Layers of a kind beside which an adapter is, on one GPU."""

    owner: str
    number: int
    inputs: float
    """Width on this GPU."""
    outputs: float
    joins: str = ""
    """The field of ``Copies`` where several projections are joined."""
    experts: float = 1.0
    """Each of which has weights of its own."""


def layers(shape: Shape, training: Training, shard: Shard) -> Iterator[Layer]:
    """Yield the layers that an adapter is beside; the router apart.

    Tensor parallelism splits the side on which it splits the layer: outputs of qkv and fc1, inputs
    of proj and fc2 (mcore-bridge ``tuners/lora.py``).
    """
    tp, named, hidden = training.layout.tp, training.lora_modules, shape.hidden
    if is_adapted(named, "self_attention.linear_qkv"):
        wide = (shape.q_width + 2 * shape.kv_width) / tp
        yield Layer("self_attention", shard.layers, hidden, wide, "qkv")
    if is_adapted(named, "self_attention.linear_proj"):
        yield Layer("self_attention", shard.layers, shape.q_width / tp, hidden)
    moe, experts = shard.moe_layers, shape.experts / training.layout.ep
    for owner, number, width, each in (
        ("mlp", shard.layers - moe, shape.ffn / tp, 1.0),
        ("mlp.shared_experts", moe * (shape.shared_ffn > 0), shape.shared_ffn / tp, 1.0),
        (EXPERTS, moe, shape.expert_ffn / training.layout.etp, experts),
    ):
        if is_adapted(named, f"{owner}.linear_fc1"):
            yield Layer(owner, number, hidden, 2 * width, "fc1", each)
        if is_adapted(named, f"{owner}.linear_fc2"):
            yield Layer(owner, number, width, hidden, "", each)


def adapter(
    shape: Shape, training: Training, shard: Shard, copies: Copies = ONCE
) -> tuple[float, float]:
    """Return the adapter's dense and expert parameters of one rank.

    Two matrices of the adapter's rank beside each layer that is adapted, of experts beside each
    expert's. ``all-linear`` is neither router nor head (``swift/megatron/utils/utils.py``,
    ``find_all_linears``). What ``modules_to_save`` trains whole is not counted.
    """
    named = training.lora_modules
    router = ("all-router" in named or "router" in named) * (shape.hidden + shape.experts)
    sizes = [
        (layer.owner == EXPERTS, _size(layer, copies)) for layer in layers(shape, training, shard)
    ]
    dense = router * shard.moe_layers + sum(size for of_experts, size in sizes if not of_experts)
    experts = sum(size for of_experts, size in sizes if of_experts)
    return training.lora_rank * dense, training.lora_rank * experts


def _size(layer: Layer, copies: Copies) -> float:
    """Return the parameters of a rank of 1 beside layers of a kind."""
    first = getattr(copies, layer.joins) if layer.joins else 1
    return layer.number * layer.experts * (first * layer.inputs + layer.outputs)


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

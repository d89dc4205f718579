"""Parameters of one rank of each pipeline stage, and the trained ones among them."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Training


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's part. Counts are parameters."""

    stage: int
    layers: int
    moe_layers: int
    dense: float
    """Everything but routed experts: divided by TP, replicated over data parallel ranks."""
    experts: float
    """Routed experts: divided by EP and ETP."""
    head: bool
    """Whether the stage computes logits."""

    @property
    def parameters(self) -> float:
        """Return what the rank holds."""
        return self.dense + self.experts

    def owned(self, layout: Layout, *, distributed: bool) -> tuple[float, float]:
        """Return dense and expert parameters whose optimizer state this rank keeps.

        megatron-core ``distrib_optimizer.py``: dense state is sharded over DP x CP ranks, that of
        experts over the ranks that hold the same experts.
        """
        if not distributed:
            return self.dense, self.experts
        return self.dense / (layout.dp * layout.cp), self.experts / max(1, layout.edp)


def shards(model: ModelConfig, layout: Layout, *, head: bool) -> Iterator[Shard]:
    """Yield the part of a rank of each stage.

    ``head``: the model ends in logits over the vocabulary, unlike reward models.

    Raises:
        LaunchError: CONFIG if the layers cannot be divided among the stages.
    """
    before = 0
    for stage, layers in enumerate(layout.stage_layers(model.layers)):
        dense_layers = layers
        if model.is_moe:
            dense_layers = sum(before <= layer < before + layers for layer in model.dense)
        last = stage == layout.pp - 1
        yield Shard(
            stage=stage,
            layers=layers,
            moe_layers=layers - dense_layers,
            dense=_layers(model, layout.tp, layers, dense_layers)
            + _ends(model, layout.tp, first=stage == 0, last=last, head=head),
            experts=(layers - dense_layers)
            * (model.expert_layer_parameters / (layout.ep * layout.etp)),
            head=last and head,
        )
        before += layers


def _layers(model: ModelConfig, tp: int, layers: int, dense_layers: int) -> float:
    """Return the dense parameters of a stage's layers on one rank.

    Keys and values are replicated where TP exceeds their heads (``transformer_config.py``).
    """
    repeated = max(1, tp // model.kv_heads) - 1
    copies = repeated * 2 * model.hidden * model.kv_width
    attention = (model.attention_parameters + copies) / tp + model.norm_parameters
    moe = model.shared_parameters / tp + model.router_parameters
    mlp = model.mlp_parameters / tp
    return layers * attention + (layers - dense_layers) * moe + dense_layers * mlp


def _ends(model: ModelConfig, tp: int, *, first: bool, last: bool, head: bool) -> float:
    """Return embedding, head and final norm; a tied model split in stages holds both copies.

    The vocabulary is padded to a multiple of TP (mcore-bridge ``gpt_model.py``).
    """
    matrix = -(-model.vocab // tp) * model.hidden
    own_head = last and head and not (model.tied and first)
    return matrix * (first + own_head) + model.hidden * last


class Copies(NamedTuple):
    """Copies of the first matrix of an adapter whose layer joins several projections."""

    qkv: int = 1
    fc1: int = 1


EXPERTS = "mlp.experts"
ONCE = Copies()
IN_PEFT = Copies(qkv=3, fc1=2)
"""Hugging Face separates q, k and v, and gate and up; PEFT's file holds one matrix for each
(mcore-bridge ``bridge/gpt_bridge.py``: ``lora_A.clone()``)."""


class Layer(NamedTuple):
    """Adapted layers of one kind on one GPU."""

    owner: str
    number: int
    inputs: float
    outputs: float
    joins: str = ""
    """Field of ``Copies`` if the layer joins several projections."""
    experts: float = 1.0
    """Number of experts, each with its own weights."""


def layers(model: ModelConfig, training: Training, shard: Shard) -> Iterator[Layer]:
    """Yield the adapted layers, without the router.

    Tensor parallelism splits the side on which it splits the layer: outputs of qkv and fc1, inputs
    of proj and fc2 (mcore-bridge ``tuners/lora.py``).
    """
    tp, named, hidden = training.layout.tp, training.lora_modules, model.hidden
    if is_adapted(named, "self_attention.linear_qkv"):
        wide = (model.q_width + 2 * model.kv_width) / tp
        yield Layer("self_attention", shard.layers, hidden, wide, "qkv")
    if is_adapted(named, "self_attention.linear_proj"):
        yield Layer("self_attention", shard.layers, model.q_width / tp, hidden)
    moe, experts = shard.moe_layers, model.experts / training.layout.ep
    for owner, number, width, each in (
        ("mlp", shard.layers - moe, model.ffn / tp, 1.0),
        ("mlp.shared_experts", moe * (model.shared_ffn > 0), model.shared_ffn / tp, 1.0),
        (EXPERTS, moe, model.expert_ffn / training.layout.etp, experts),
    ):
        if is_adapted(named, f"{owner}.linear_fc1"):
            yield Layer(owner, number, hidden, 2 * width, "fc1", each)
        if is_adapted(named, f"{owner}.linear_fc2"):
            yield Layer(owner, number, width, hidden, "", each)


def adapter(
    model: ModelConfig, training: Training, shard: Shard, copies: Copies = ONCE
) -> tuple[float, float]:
    """Return the adapter's dense and expert parameters of one rank.

    Each adapted layer has two matrices of the adapter's rank, for experts one pair each.
    ``all-linear`` includes neither router nor head (``swift/megatron/utils/utils.py``,
    ``find_all_linears``). Modules in ``modules_to_save`` are not counted.
    """
    named = training.lora_modules
    router = ("all-router" in named or "router" in named) * (model.hidden + model.experts)
    sizes = [
        (layer.owner == EXPERTS, _size(layer, copies)) for layer in layers(model, training, shard)
    ]
    dense = router * shard.moe_layers + sum(size for of_experts, size in sizes if not of_experts)
    experts = sum(size for of_experts, size in sizes if of_experts)
    return training.lora_rank * dense, training.lora_rank * experts


def _size(layer: Layer, copies: Copies) -> float:
    """Return an adapter's parameters per unit of rank for layers of one kind."""
    first = getattr(copies, layer.joins) if layer.joins else 1
    return layer.number * layer.experts * (first * layer.inputs + layer.outputs)


def is_adapted(named: tuple[str, ...], module: str) -> bool:
    """Return whether a module matches one of the names by suffix, as in PEFT.

    >>> is_adapted(("experts.linear_fc1",), "mlp.experts.linear_fc1")
    True
    >>> is_adapted(("experts.linear_fc1",), "mlp.shared_experts.linear_fc1")
    False
    """
    return any(name == "all-linear" or f".{module}".endswith(f".{name}") for name in named)


def whole(model: ModelConfig, training: Training, copies: Copies = ONCE) -> int:
    """Return the adapter's parameters of the whole model."""
    alone = dataclasses.replace(training, layout=Layout(nodes=1, gpus_per_node=1))
    (shard,) = shards(model, alone.layout, head=training.head)
    return round(sum(adapter(model, alone, shard, copies)))


def trained(model: ModelConfig, training: Training, shard: Shard) -> Shard:
    """Return the trained parameters of a rank as a shard."""
    if training.tuner == "full":
        return shard
    dense, experts = adapter(model, training, shard)
    return dataclasses.replace(shard, dense=dense, experts=experts)

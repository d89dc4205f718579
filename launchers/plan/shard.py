"""Which part of a model's parameters one rank of each pipeline stage holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launchers.plan.layout import Layout
from launchers.plan.model_config import Shape


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's part. Counts are parameters."""

    stage: int
    layers: int
    moe_layers: int
    """How many of the layers have experts; leading layers are the dense ones."""
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


def shards(shape: Shape, layout: Layout, *, head: bool) -> Iterator[Shard]:
    """Yield the part of a rank of each stage.

    Args:
        shape: of the model.
        layout: parallel sizes.
        head: whether the model ends in logits over the vocabulary (not for reward models).

    Raises:
        LaunchError: CONFIG if the layers can't be spread over the stages.
    """
    before = 0
    for stage, layers in enumerate(layout.stage_layers(shape.layers)):
        dense_layers = layers
        if shape.is_moe:
            dense_layers = min(layers, max(0, shape.dense_layers - before))
        last = stage == layout.pp - 1
        yield Shard(
            stage=stage,
            layers=layers,
            moe_layers=layers - dense_layers,
            dense=_layers(shape, layout.tp, layers, dense_layers)
            + _ends(shape, layout.tp, first=stage == 0, last=last, head=head),
            experts=(layers - dense_layers)
            * (shape.expert_layer_parameters / (layout.ep * layout.etp)),
            head=last and head,
        )
        before += layers


def _layers(shape: Shape, tp: int, layers: int, dense_layers: int) -> float:
    """Return the dense parameters of a stage's layers on one rank.

    Keys and values are replicated where TP exceeds their heads (``transformer_config.py``).
    """
    repeated = max(1, tp // shape.kv_heads) - 1
    copies = repeated * 2 * shape.hidden * shape.kv_width
    attention = (shape.attention_parameters + copies) / tp + shape.norm_parameters
    moe = shape.shared_parameters / tp + shape.router_parameters
    mlp = shape.mlp_parameters / tp
    return layers * attention + (layers - dense_layers) * moe + dense_layers * mlp


def _ends(shape: Shape, tp: int, *, first: bool, last: bool, head: bool) -> float:
    """Return embedding, head and final norm; a tied model split in stages holds both copies.

    The vocabulary is padded to a multiple of TP (mcore-bridge ``gpt_model.py``).
    """
    matrix = -(-shape.vocab // tp) * shape.hidden
    own_head = last and head and not (shape.tied and first)
    return matrix * (first + own_head) + shape.hidden * last

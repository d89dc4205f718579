"""Bytes that one rank sends in a step, by purpose and link.

In NCCL's collectives a ring moves (n-1)/n of the bytes through each rank, and an all-to-all sends
(n-1)/n of them. Ranks are numbered in the order tp, cp, ep, dp, pp, and a node's ranks are
contiguous (megatron-core ``parallel_state.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from launchers.plan.activations import split
from launchers.plan.flops import passes, recomputed
from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import Shard
from launchers.plan.training_job import Training


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes that one rank sends inside its node or NVLink domain, and one node to others."""

    inside: float = 0.0
    across: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        """Return the sum."""
        return Traffic(inside=self.inside + other.inside, across=self.across + other.across)


def _group(layout: Layout, size: int, span: int, sent: float, *, scattered: bool) -> Traffic:
    """Divide the bytes a rank sends in a group between NVLink and network.

    One rank sends ``sent`` bytes: ``scattered`` in an all-to-all, otherwise in a ring.
    """
    per_node, joined = layout.gpus_per_node, layout.nvlink or layout.gpus_per_node
    if size <= 1:
        return Traffic()
    if span <= joined:
        return Traffic(inside=sent)
    in_node = max(1.0, size * joined / span)
    if not scattered:  # NCCL's rings leave a node once per group
        return Traffic(inside=sent, across=sent * per_node / in_node)
    away = (size - in_node) / (size - 1)
    return Traffic(inside=sent * (1 - away), across=sent * away * per_node)


def sequence(model: ModelConfig, training: Training, shard: Shard, local: float) -> Traffic:
    """Return tensor and context parallel traffic of one microbatch.

    Each forward pass gathers and scatters the hidden states before and after attention and a dense
    MLP; experts with ETP 1 work on the split sequence. The backward pass does the same and gathers
    the inputs again (``tensor_parallel/layers.py``).
    """
    layout = training.layout
    around = 2.0 * shard.layers + 2.0 * (shard.layers - shard.moe_layers)
    around += 2.0 * shard.moe_layers * (layout.etp > 1)
    size = 2.0 * model.hidden * local * (layout.tp - 1) / layout.tp
    every = _forwards(model, training) + 1.5
    tensor = _group(layout, layout.tp, layout.tp, around * size * every, scattered=False)
    keys = 4.0 * model.kv_width / layout.tp * local * (layout.cp - 1) * shard.layers * every
    span = layout.tp * layout.cp
    return tensor + _group(layout, layout.cp, span, keys, scattered=False)


def experts(model: ModelConfig, training: Training, shard: Shard, sent_rows: float) -> Traffic:
    """Return the experts' traffic of one microbatch, forward and backward.

    An all-to-all sends a copy of each token to each of its top-k experts; ``allgather`` sends all
    tokens of the group once, with fp32 probabilities and a map of all experts (megatron-core
     ``moe/token_dispatcher.py``).
    ``sent_rows``: rows that a rank sends and receives back in one layer.
    """
    layout, forwards = training.layout, _forwards(model, training)
    phases = 2.0 * (forwards + 1)
    if training.dispatcher == "allgather":
        ranks = layout.ep * layout.etp
        each = 2.0 * model.hidden * phases + model.experts * (5.0 * forwards + 4.0)
        around = each * sent_rows / model.topk * (ranks - 1) * shard.moe_layers
        return _group(layout, ranks, ranks, around, scattered=False)
    away = (layout.ep - 1) / layout.ep
    sent = 2.0 * model.hidden * sent_rows * away * phases * shard.moe_layers
    return _group(layout, layout.ep, layout.ep * layout.etp, sent, scattered=True)


def pipeline(model: ModelConfig, training: Training, local: float) -> Traffic:
    """Return the traffic between stages per microbatch, in both directions."""
    layout = training.layout
    if layout.pp == 1:
        return Traffic()
    hidden = 2.0 * model.hidden * local / split(training)
    sent = hidden * (2.0 + training.compares) * layout.chunks
    span = layout.world // layout.pp
    if span < (layout.nvlink or layout.gpus_per_node):
        return Traffic(inside=sent)
    return Traffic(across=sent * layout.gpus_per_node)


def gradients(training: Training, dense: float, moe: float) -> Traffic:
    """Return the data-parallel traffic of one step, of gradients and weights."""
    layout = training.layout
    each = training.grad_bytes + 2.0
    stage = layout.world // layout.pp
    replicas, copies = layout.dp * layout.cp, layout.edp
    sent = dense * each * (replicas - 1) / replicas
    moe_sent = moe * each * (copies - 1) / max(1, copies)
    spread = _group(layout, replicas, stage, sent, scattered=False)
    return spread + _group(layout, copies, stage, moe_sent, scattered=False)


def _forwards(model: ModelConfig, training: Training) -> float:
    """Return the forward passes through a layer: reference, policy, recomputation."""
    backward = 2.0 if training.tuner == "full" else 1.0
    return passes(training) - backward + recomputed(model, training)

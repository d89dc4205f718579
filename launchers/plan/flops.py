"""Floating point operations of a model per token.

The formula is megatron-core's (``megatron/training/training.py``,
``num_floating_point_operations``), with causal attention counted as half; it reproduces the
figures that NVIDIA publishes for Qwen3-30B-A3B:

>>> from launchers.plan.model_config import ModelConfig
>>> qwen = ModelConfig(layers=48, hidden=2048, heads=32, kv_heads=4, head_dim=128, ffn=6144,
...              vocab=151936, tied=False, experts=128, topk=8, expert_ffn=768, qk_norm=True)
>>> round(8826 * 3 * forward(qwen, 4096) / 1e12, 2)  # tokens/s/GPU, forward and backward
203.05
>>> round(1024 * 4096 / 20.147 / 16 * 3 * forward(qwen, 4096) / 1e12, 2)
299.35
"""

from dataclasses import dataclass

from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Training


@dataclass(frozen=True, kw_only=True)
class Forward:
    """FLOP of one token's forward pass, through the whole model."""

    linear: float
    """Projections of attention, dense MLPs and shared experts."""
    attention: float
    """Attention scores and their product with the values."""
    experts: float
    head: float

    @property
    def total(self) -> float:
        """Return the sum."""
        return self.linear + self.attention + self.experts + self.head


def parts(model: ModelConfig, s_eff: float) -> Forward:
    """Return the FLOP of one token's forward pass, by kind.

    ``s_eff`` is sum(L^2) / sum(L) over sequence lengths, not the length of a pack.
    """
    attention = model.hidden * (2 * model.q_width + 2 * model.kv_width)
    moe, plain = model.moe_layers, model.layers - model.moe_layers
    mlps = 3 * model.hidden * (plain * model.ffn + moe * model.shared_ffn)
    return Forward(
        linear=2.0 * (model.layers * attention + mlps),
        attention=2.0 * model.layers * model.q_width * s_eff,
        experts=2.0 * moe * 3 * model.hidden * model.expert_ffn * model.topk,
        head=2.0 * model.hidden * model.vocab,
    )


def forward(model: ModelConfig, s_eff: float) -> float:
    """Return the FLOP of one token's forward pass."""
    return parts(model, s_eff).total


def passes(training: Training) -> float:
    """Return a training step's FLOP as a multiple of one forward pass, without recomputation.

    DPO: reference 1, policy 1, backward 2, as MFU counts them. LoRA computes no gradients of
    frozen weights: backward 1.

    >>> from launchers.plan.layout import Layout
    >>> one = Layout(nodes=1, gpus_per_node=1)
    >>> passes(Training(layout=one)), passes(Training(layout=one, compares=False, tuner="lora"))
    (4.0, 2.0)
    """
    return float(training.compares) + 1.0 + (2.0 if training.tuner == "full" else 1.0)


def model_flops(model: ModelConfig, training: Training, s_eff: float) -> float:
    """Return the FLOP per token that MFU counts: 4 forward passes for DPO."""
    return passes(training) * forward(model, s_eff)


def recomputed(model: ModelConfig, training: Training) -> float:
    """Return the share of layers that the backward pass recomputes.

    megatron-core 0.18 ``recompute.py``: full and uniform: all layers;
    block: the first ``recompute_num_layers`` of each model chunk. Selective counts as 0: it
    recomputes a small part of a layer.
    """
    if training.recompute != "full" or training.recompute_method != "block":
        return float(training.recompute == "full")
    chunks = training.layout.pp * training.layout.chunks
    return min(1.0, training.recompute_num_layers * chunks / model.layers)


def hardware_flops(model: ModelConfig, training: Training, s_eff: float) -> float:
    """Return the FLOP per token that the GPU executes, including recomputation."""
    return model_flops(model, training, s_eff) + recomputed(model, training) * forward(model, s_eff)

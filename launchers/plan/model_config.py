"""Sizes of a decoder-only transformer, read from its ``config.json``.

Parameter counts follow Hugging Face's modeling_*.py; tests compare them with published totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from launchers.exits import Exit, LaunchError

EXPERTS = ("num_experts", "n_routed_experts", "moe_num_experts", "num_local_experts")
"""Keys of the number of routed experts, as in mcore-bridge ``config/parser.py``."""
_TOPK = ("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token")
_UNMODELLED = ("kv_lora_rank", "vision_config", "num_nextn_predict_layers", "linear_num_key_heads")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes of a model. Parameter counts are of the whole model."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Intermediate size of a dense MLP."""
    vocab: int
    tied: bool
    """Whether head and embedding share weights."""
    experts: int = 0
    topk: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    """Total intermediate size of the shared experts."""
    shared_gate: bool = False
    dense_layers: int = 0
    """Layers with a dense MLP in a model with experts, e.g. ``first_k_dense_replace``."""
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    dtype: str = "bfloat16"
    positions: int = 0
    """``max_position_embeddings``, the default of ms-swift's ``max_length``."""
    unmodelled: tuple[str, ...] = ()
    """Keys of config.json whose effect is not modelled; predictions are then rough."""

    @property
    def is_moe(self) -> bool:
        """Return whether the model has routed experts."""
        return self.experts > 0

    @property
    def moe_layers(self) -> int:
        """Return the number of layers with experts."""
        return self.layers - self.dense_layers if self.is_moe else 0

    @property
    def q_width(self) -> int:
        """Return the total width of the query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Return the total width of the key heads; the value heads have the same."""
        return self.kv_heads * self.head_dim

    @cached_property
    def attention_parameters(self) -> int:
        """Return the attention parameters of one layer that tensor parallelism divides."""
        weights = self.hidden * (2 * self.q_width + 2 * self.kv_width)
        return weights + self.qkv_bias * (self.q_width + 2 * self.kv_width)

    @cached_property
    def norm_parameters(self) -> int:
        """Return the parameters of one layer that every tensor rank holds: norms, output bias."""
        return 2 * self.hidden + self.qk_norm * 2 * self.head_dim + self.out_bias * self.hidden

    @cached_property
    def mlp_parameters(self) -> int:
        """Return the parameters of one dense MLP: gate, up and down."""
        return 3 * self.hidden * self.ffn

    @cached_property
    def shared_parameters(self) -> int:
        """Return the parameters of one layer's shared experts, which tensor parallelism divides."""
        return 3 * self.hidden * self.shared_ffn

    @cached_property
    def router_parameters(self) -> int:
        """Return the parameters of one layer's router and gate, which every tensor rank holds."""
        return self.hidden * (self.experts + self.shared_gate)

    @cached_property
    def expert_layer_parameters(self) -> int:
        """Return the parameters of all routed experts of one layer."""
        return self.experts * 3 * self.hidden * self.expert_ffn

    @property
    def embedding_parameters(self) -> int:
        """Return the parameters of one vocabulary matrix; an untied model has two."""
        return self.vocab * self.hidden

    @cached_property
    def expert_parameters(self) -> int:
        """Return the parameters of all routed experts, which expert parallelism divides."""
        return self.moe_layers * self.expert_layer_parameters

    @cached_property
    def dense_parameters(self) -> int:
        """Return all parameters except the routed experts."""
        each = self.attention_parameters + self.norm_parameters
        moe = self.moe_layers * (self.shared_parameters + self.router_parameters)
        dense = (self.layers - self.moe_layers) * self.mlp_parameters
        ends = self.embedding_parameters * (1 if self.tied else 2) + self.hidden
        return self.layers * each + moe + dense + ends

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return self.dense_parameters + self.expert_parameters

    @cached_property
    def active_parameters(self) -> int:
        """Return the parameters active for one token."""
        used = self.moe_layers * self.topk * 3 * self.hidden * self.expert_ffn
        return self.dense_parameters + used


def parse_config(config: Mapping[str, object]) -> ModelConfig:
    """Parse a ``config.json``.

    Raises:
        LaunchError: DATA, naming a key that is missing or not a size.

    >>> parse_config({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    ...        "vocab_size": 100, "num_attention_heads": 4, "intermediate_size": 128}).parameters
    95040
    """
    outer, text = config, config.get("text_config")
    config = text if isinstance(text, Mapping) else config
    kind = str(config.get("model_type", ""))
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    ffn = _size(config, "intermediate_size", "moe_intermediate_size", "ffn_hidden_size")
    bias = bool(config.get("attention_bias"))
    tied = config.get("tie_word_embeddings", outer.get("tie_word_embeddings"))
    return ModelConfig(
        layers=_size(config, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=_size(config, "num_key_value_heads", default=heads),
        head_dim=_size(config, "head_dim", default=max(1, hidden // heads)),
        ffn=ffn,
        vocab=_size(config, "vocab_size"),
        tied=kind.startswith("gemma") if tied is None else bool(tied),
        qk_norm=kind.startswith("qwen3") or bool(config.get("use_qk_norm")),
        qkv_bias=bias or bool(config.get("qkv_bias", kind.startswith("qwen2"))),
        out_bias=bias,
        dtype=str(config.get("torch_dtype") or config.get("dtype") or "bfloat16"),
        positions=_size(config, "max_position_embeddings", default=0),
        unmodelled=tuple(k for k in _UNMODELLED if config.get(k) or outer.get(k)),
        **_experts(config, ffn),
    )


def _experts(config: Mapping[str, object], ffn: int) -> dict[str, Any]:
    """Return the sizes of the experts; empty for a dense model."""
    if (experts := _size(config, *EXPERTS, default=0)) < 2:
        return {}
    width = _size(config, "moe_intermediate_size", default=ffn)
    shared = _size(config, "shared_expert_intermediate_size", default=0)
    only = config.get("mlp_only_layers")
    return {
        "experts": experts,
        "topk": _size(config, *_TOPK),
        "expert_ffn": width,
        "shared_ffn": shared or width * _size(config, "n_shared_experts", default=0),
        "shared_gate": bool(shared),
        "dense_layers": _size(config, "first_k_dense_replace", default=0)
        or (len(only) if isinstance(only, list) else 0),
    }


def _size(config: Mapping[str, object], *keys: str, default: int | None = None) -> int:
    """Return the value of the first key that is set."""
    key = next((k for k in keys if config.get(k) is not None), None)
    if key is None and default is not None:
        return default
    value = None if key is None else config[key]
    if isinstance(value, int) and not isinstance(value, bool) and value >= (default != 0):
        return value
    raise LaunchError(
        Exit.DATA,
        f"config.json of the model: {' or '.join(keys)}={value!r}",
        "use the whole number of the model's architecture",
        id="model-config-number",
    )

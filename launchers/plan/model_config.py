"""Sizes of a decoder-only transformer, read from its ``config.json``.

Parameter counts follow Hugging Face's modeling_*.py; tests compare them with published totals.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from launchers.exits import Exit, LaunchError

EXPERTS = ("num_experts", "n_routed_experts", "moe_num_experts", "num_local_experts")
"""Keys of the number of routed experts, as in mcore-bridge ``config/parser.py``."""
_TOPK = (
    "num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k", "num_experts_per_token",
    "top_k_experts",
)  # fmt: skip
_DENSE_FIRST = ("first_k_dense_replace", "moe_layer_num_skipped", "num_dense_layers")
_SHARED = ("n_shared_experts", "num_shared_expert", "moe_num_shared_experts", "num_shared_experts")
_UNMODELLED = (
    "kv_lora_rank", "vision_config", "audio_config", "talker_config", "num_nextn_predict_layers",
    "num_mtp_modules", "mtp_num_hidden_layers", "linear_num_key_heads", "expert_layer_period",
    "hidden_size_per_layer_input", "use_sliding_window",
)  # fmt: skip
_OTHER_LAYERS = re.compile("mamba_|ssm_|conv_l|rwkv|hybrid_override")
"""Keys of layers without attention, in lower case."""
_COUNTED = re.compile(
    "afmoe|aria_text|axk1|axk2|bitnet|cohere|cohere2|cohere2_moe|cwm|deepseek|deepseek_v2|"
    "deepseek_v3|deepseek_v32|deepseek_v4|diffllama|doge|dots1|emu3|ernie4_5|ernie4_5_moe|"
    "exaone4|exaone_moe|flex_olmo|gemma|gemma2|gemma3|gemma3_text|gemma4_unified|"
    "gemma4_unified_text|glm|glm4|glm4_moe|glm4_moe_lite|glm4v_moe_text|glm4v_text|glm_moe_dsa|"
    "glm_ocr_text|gpt_oss|granite|granite_swa|granitemoe|granitemoe_swa|granitemoehybrid|"
    "granitemoeshared|helium|hunyuan_v1_dense|hy_v3|hyperclovax|inkling_text|kimi_k2|laguna|"
    "llama|llama4|llama4_text|mellum|mimo_v2_flash|minicpm3|minimax|minimax_m2|"
    "minimax_m3_vl_text|ministral|ministral3|mistral|mixtral|mllama|olmo|olmo2|olmo3|olmoe|phi3|"
    "phimoe|qwen2|qwen2_5_vl_text|qwen2_moe|qwen2_vl_text|qwen3|qwen3_5|qwen3_5_moe|"
    "qwen3_5_moe_text|qwen3_5_text|qwen3_moe|qwen3_next|qwen3_vl_moe_text|qwen3_vl_text|"
    "seed_oss|smollm3|solar_open|stablelm|vaultgemma|zaya"
)
"""Values of ``model_type`` whose parameters are those of the model that transformers builds, within
5 % (Qwen3.5: 9 %; ``tests/launchers/plan/test_parameters_on_meta.py``)."""
_TIED = re.compile("gemma|cohere|ernie4_5|smollm3|starcoder2|falcon$|lfm2")
_UNTIED = re.compile(
    "qwen[23]|llama|mistral|ministral|mixtral|deepseek|glm|minimax|gpt_oss|gpt_neox$|phi|olmo|granite"
)
"""Families by the default of ``tie_word_embeddings`` (transformers ``configuration_*.py``)."""
_MODALITIES = ("vision_config", "visual", "audio_config", "thinker_config")
"""Keys of a model that reads more than text."""
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which a multimodal model has the sizes of its decoder (mcore-bridge
``config/parser.py``; ``language_config``: DeepSeek-VL2)."""


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
    dense: tuple[int, ...] = ()
    """Layers, from 0, with a dense MLP in a model with experts."""
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    dtype: str = "bfloat16"
    positions: int = 0
    """``max_position_embeddings``, the default of ms-swift's ``max_length``."""
    scaled_positions: int = 0
    """Positions that the RoPE scaling of config.json reaches; 0 without one that says so."""
    unmodelled: tuple[str, ...] = ()
    """Keys of config.json whose effect is not modelled; predictions are then rough."""
    architecture: str = ""
    """The first of ``architectures``, by which ms-swift knows a model."""
    multimodal: bool = False
    """Whether the model reads more than text."""

    @property
    def is_counted(self) -> bool:
        """Return whether its kind of model is known: if not, sizes are those of a usual decoder."""
        return "model_type" not in self.unmodelled

    @property
    def is_moe(self) -> bool:
        """Return whether the model has routed experts."""
        return self.experts > 0

    @property
    def dense_layers(self) -> int:
        """Return the number of layers with a dense MLP in a model with experts."""
        return len(self.dense)

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
        LaunchError: DATA, naming a key that is missing (``model-size-missing``) or not a size.
    """
    outer, config = config, text_config(config)
    kind = str(config.get("model_type", ""))
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    layers = _size(config, "num_hidden_layers")
    ffn = _size(config, "intermediate_size", "moe_intermediate_size", "ffn_hidden_size")
    bias = bool(config.get("attention_bias"))
    tied, named = is_tied(outer), outer.get("architectures")
    return ModelConfig(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_size(config, "num_key_value_heads", default=heads),
        head_dim=_size(config, "head_dim", default=max(1, hidden // heads)),
        ffn=_size(config, "intermediate_size_mlp", default=ffn),
        vocab=_size(config, "vocab_size"),
        tied=bool(tied),
        qk_norm=kind.startswith("qwen3") or bool(config.get("use_qk_norm")),
        qkv_bias=bias or bool(config.get("qkv_bias", kind.startswith("qwen2"))),
        out_bias=bias,
        dtype=str(config.get("torch_dtype") or config.get("dtype") or "bfloat16"),
        positions=_size(config, "max_position_embeddings", default=0),
        scaled_positions=_scaled_positions(config),
        unmodelled=tuple(_unmodelled(outer, kind)),
        architecture=str(named[0]) if isinstance(named, list) and named else "",
        multimodal=any(k in each for each in levels(outer) for k in _MODALITIES),
        **_experts(config, ffn, layers),
    )


def _unmodelled(config: Mapping[str, object], kind: str) -> Iterator[str]:
    """Yield the keys of a config.json whose effect is not modelled."""
    found, sizes = levels(config), text_config(config)
    yield from (key for key in _UNMODELLED if any(each.get(key) for each in found))
    has_experts = any(sizes.get(key) for key in EXPERTS)
    for key, value in sizes.items():
        is_other = _OTHER_LAYERS.match(key.lower()) or ("expert" in key and not has_experts)
        if is_other and isinstance(value, int | str) and value not in (0, 1, ""):
            yield key
    if not _COUNTED.fullmatch(kind):
        yield "model_type"


def levels(config: Mapping[str, object]) -> list[Mapping[str, Any]]:
    """Return a config.json and the configs of its decoder in it, the outermost first."""
    found: list[Mapping[str, Any]] = [config]
    while inner := next((i for k in _NESTED if isinstance(i := found[-1].get(k), Mapping)), None):
        found.append(inner)
    return found


def text_config(config: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the part of a config.json with the sizes of the decoder."""
    return levels(config)[-1]


def is_tied(config: Mapping[str, object]) -> bool | None:
    """Return whether head and embedding share weights; None if config.json does not say.

    The innermost value counts (mcore-bridge ``config/parser.py``: ``_get_tie_word_embeddings``);
    without one the default of the model's class in transformers, of families where it is known.

    >>> is_tied({"model_type": "gemma3_text"}), is_tied({"model_type": "qwen3"}), is_tied({})
    (True, False, None)
    """
    said = [each.get("tie_word_embeddings") for each in levels(config)]
    kind = str(text_config(config).get("model_type", ""))
    default = bool(_TIED.match(kind)) if _TIED.match(kind) or _UNTIED.match(kind) else None
    return next((bool(value) for value in reversed(said) if value is not None), default)


def quantization(config: Mapping[str, object]) -> str:
    """Return how the weights are quantized; empty if they are not, or turned back as they load.

    >>> quantization({"quantization_config": {"quant_method": "gptq", "bits": 4}})
    'gptq'
    """
    found = next(filter(None, (each.get("quantization_config") for each in levels(config))), None)
    if not isinstance(found, Mapping) or found.get("dequantize"):
        return ""
    unnamed = "an unnamed method" if found.get("bits") else ""  # as MLX writes it
    if found.get("load_in_4bit") or found.get("load_in_8bit"):
        unnamed = "bitsandbytes"
    method, form = str(found.get("quant_method", unnamed)), str(found.get("format", ""))
    is_packed = method != "compressed-tensors" or form in ("", "pack-quantized")
    return method if is_packed else f"{method} {form}"


def _experts(config: Mapping[str, object], ffn: int, layers: int) -> dict[str, Any]:
    """Return the sizes of the experts; empty for a dense model."""
    if (experts := _size(config, *EXPERTS, default=0)) < 2 or config.get("is_moe") is False:
        return {}
    width = _size(config, "moe_intermediate_size", "expert_ffn_hidden_size", default=ffn)
    gated = _size(config, "shared_expert_intermediate_size", default=0)
    shared = gated or _size(config, "shared_intermediate_size", default=0)
    number = _size(config, *_SHARED, default=int("intermediate_size_mlp" in config))
    return {
        "experts": experts,
        "topk": _size(config, *_TOPK),
        "expert_ffn": width,
        "shared_ffn": shared or width * number,
        "shared_gate": bool(gated),
        "dense": tuple(i for i in range(layers) if not _is_sparse(config, i)),
    }


def _is_sparse(config: Mapping[str, object], layer: int) -> bool:
    """Return whether a layer of a model with experts has them.

    Source: Hugging Face's modeling_*.py of Qwen, DeepSeek and GLM, Llama 4, ERNIE, HunYuan,
    Step, AFMoE, LFM2.
    """

    def number(key: str, default: int) -> int:
        return _size(config, key, default=default)

    for key in ("moe_layer_freq", "mlp_layer_types"):
        if isinstance(each := config.get(key), list) and len(each) > layer:
            return each[layer] not in (0, "dense")
    if isinstance(named := config.get("moe_layers"), list) and named:
        return layer in named
    if isinstance(text := config.get("moe_layers_enum"), str):
        return str(layer) in text.replace(" ", "").split(",")
    every, begin = number("decoder_sparse_step", 1), number("moe_layer_start_index", 0)
    every *= number("interleave_moe_layer_step", 1) * number("moe_layer_interval", 1)
    begin += sum(number(key, 0) for key in _DENSE_FIRST)
    only, end = config.get("mlp_only_layers"), config.get("moe_layer_end_index")
    last = layer if end in (None, -1) else number("moe_layer_end_index", layer)
    is_listed = isinstance(only, list) and layer in only
    in_turn = (layer + 1) % max(1, every) == 0 and layer % max(1, number("moe_layer_freq", 1)) == 0
    return begin <= layer <= last and in_turn and not is_listed


def _scaled_positions(config: Mapping[str, object]) -> int:
    """Return the product of YaRN's and others' factor and length; ``rope_parameters`` since 5.0.

    >>> yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    >>> _scaled_positions({"rope_scaling": yarn}), _scaled_positions({"rope_scaling": None})
    (131072, 0)
    """
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    given = scaling if isinstance(scaling, Mapping) else {}
    found = [given.get("factor"), given.get("original_max_position_embeddings")]
    numbers = [each for each in found if isinstance(each, int | float)]
    return int(math.prod(numbers)) if len(numbers) == len(found) else 0


def _size(config: Mapping[str, object], *keys: str, default: int | None = None) -> int:
    """Return the value of the first key that is set; of a list whose sizes are equal, that size."""
    key = next((k for k in keys if config.get(k) is not None), None)
    if key is None and default is not None:
        return default
    value = None if key is None else config[key]
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool) and value >= (default != 0):
        return value
    says, remedy = f"{key}={value!r}", "use the whole number of the model's architecture"
    id = "model-config-number"
    if isinstance(value, list):
        says = f"{key} has {len(value)} different sizes"
        remedy = "use a model with one size for all layers"
    elif value is None:
        says, id = f"{' or '.join(keys)} is missing", "model-size-missing"
        remedy = "write the value that the model's class has by default into a copy of config.json"
    raise LaunchError(Exit.DATA, f"config.json of the model: {says}", remedy, id=id)

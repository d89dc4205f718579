"""Values of a model's config.json that transformers refuses, or fails on with the first tokens.

Tried with 5.12.1, 5.16.1 and 5.19.0 (``configuration_utils.py``: strict types of the classes,
``validate_layer_type``; ``modeling_rope_utils.py``: ``_check_received_keys``). Megatron builds the
same configuration first (mcore-bridge).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launchers.config.recipe import Recipe
from launchers.inputs.models.installed_class import NAME, is_own
from launchers.plan.model_config import EXPERTS, levels, text_config

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
_COUNTS = (*_SIZES, *EXPERTS, "vocab_size", "num_key_value_heads", "intermediate_size")
_WIDTHS = ("head_dim", "moe_intermediate_size")
_DTYPES = re.compile(r"float(?:16|32|64|8_\w+)?|bfloat16|half|double")
_AS_TEXT = re.compile(r"true|false|-?\d+|-?\d*\.?\d+(?:e-?\d+)?", re.IGNORECASE)
_TOKENS = re.compile(r"(?:bos|eos|pad)_token_id")
_TYPED = re.compile(
    r"use_cache|(?:use_)?sliding_window|tie_word_embeddings|rope_theta|initializer_range|"
    r"norm_topk_prob|\w+_(?:bias|dropout|norm_eps|norm_epsilon|head_dim|lora_rank)|num_\w+_per_tok|"
    + _TOKENS.pattern
)
"""Keys whose type many classes know; one that a class does not know may be a text."""
_OTHERS = re.compile(r"For(?:MaskedLM|PreTraining|TokenClassification|QuestionAnswering)$")
"""Classes without a causal output."""
_ROPE = {
    **dict.fromkeys(("linear", "dynamic", "yarn"), ("factor",)),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
"""Keys that each ``rope_type`` needs; the others have defaults."""
_WHOLE = "write the whole number of the model"
_COPY = f"copy the {NAME} of the model again"


def numbers(config: Mapping[str, Any], name: str) -> tuple[str, str, str] | None:
    """Return id, cause and remedy of the first size that is not an integer, or too small.

    Args:
        config: the content of config.json.
        name: of the model, for the message.
    """
    sizes = text_config(config)
    for key in (*_COUNTS, *_WIDTHS):  # lists are sizes by layer
        size, least = sizes.get(key), int(key in (*_SIZES, "num_key_value_heads"))
        if isinstance(size, float | str) or (isinstance(size, int) and size < least):
            says = f"{name}: {NAME} has {key}: {size!r}, which transformers refuses"
            return "model-config-number", says, _WHOLE
    return None


def wrong(config: Mapping[str, Any], recipe: Recipe) -> tuple[str, str, str] | None:
    """Return id, cause and remedy of the first other value that is refused.

    Args:
        config: the content of config.json.
        recipe: the run's recipe.
    """
    named = config.get("architectures") or []
    if not isinstance(named, list):  # transformers 5: a TypeError
        says = f"{recipe.model}: architectures of {NAME} is not a list"
        return "model-architectures", says, 'write a list, such as ["Qwen3ForCausalLM"]'
    is_other = any(map(_OTHERS.search, map(str, named)))
    if recipe.backend == "megatron":  # ms-swift's transformers trainers have Florence-2
        is_other = is_other or bool(config.get("is_encoder_decoder"))
    if is_other and recipe.arg("task_type", "causal_lm") == "causal_lm":
        says = f"{recipe.model}: {NAME} is of {named[0] if named else 'an encoder and decoder'}"
        return "model-not-causal", says, "use a model that continues a text: ...ForCausalLM"
    if is_own(config):  # its class is not known
        return None
    sizes = text_config(config)
    for key, why, remedy in _refused(sizes, levels(config), recipe.backend):
        says = f"{recipe.model}: {NAME} has {key}: {_shown(sizes, config, key)}, which {why}"
        return "model-config-value", says, remedy
    return None


def _shown(sizes: Mapping[str, Any], config: Mapping[str, Any], key: str) -> str:
    value = next((each[key] for each in (sizes, config) if key in each), None)
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:80]


def _refused(
    sizes: Mapping[str, Any], found: list[Mapping[str, Any]], backend: str
) -> Iterator[tuple[str, str, str]]:
    """Yield key, reason and remedy of values of other kinds."""
    for config in found:
        for key, value in config.items():
            if isinstance(value, str) and _TYPED.fullmatch(key) and _AS_TEXT.fullmatch(value):
                yield key, "is a text", f"write it without quotes: {key}: {value.lower()}"
            if _TOKENS.fullmatch(key) and isinstance(value, list) and not _are_whole(value):
                yield key, "is not a list of numbers", f"write numbers without quotes: {key}: [2]"
        for key in ("dtype", "torch_dtype"):
            if isinstance(value := config.get(key), str) and not _DTYPES.fullmatch(value):
                yield key, "is no type of torch", f"write {key}: bfloat16"
    for key in _SIZES if backend == "transformers" else ("max_position_embeddings", "vocab_size"):
        if key in sizes and sizes[key] is None:
            yield key, "transformers refuses", _WHOLE
    heads, groups = sizes.get("num_attention_heads"), sizes.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(groups, int) and groups and heads % groups:
        yield "num_key_value_heads", f"does not divide num_attention_heads: {heads}", _COPY
    count = next((n for n in map(sizes.get, EXPERTS) if isinstance(n, int)), 0)
    if count and isinstance(chosen := sizes.get("num_experts_per_tok"), int) and chosen > count:
        yield "num_experts_per_tok", f"is more than its {count} experts", _COPY
    for key in ("rope_scaling", "rope_parameters"):
        if why := _rope(sizes.get(key)):
            yield key, why, "write the keys of the model, such as rope_type, factor and rope_theta"
    layers, kinds = sizes.get("num_hidden_layers"), sizes.get("layer_types")
    more = sizes.get("num_nextn_predict_layers") or 0
    if (
        isinstance(layers, int)
        and isinstance(kinds, list)
        and len(kinds) not in (layers, layers + more)
    ):
        yield "layer_types", f"must have one for each of num_hidden_layers: {layers}", _COPY
    pad, rows = sizes.get("pad_token_id"), sizes.get("vocab_size")
    if backend == "transformers" and isinstance(pad, int) and isinstance(rows, int) and pad >= rows:
        yield "pad_token_id", f"is beyond vocab_size: {rows}", "write the id of a token, or null"


def _are_whole(values: Sequence[object]) -> bool:
    return all(isinstance(each, int) and not isinstance(each, bool) for each in values)


def _rope(value: Any) -> str:
    """Return what is wrong with rope_scaling or rope_parameters, of all layers or by their kind."""
    if not value:
        return ""
    if not isinstance(value, dict):
        return "is not a map"
    by_kind = [each for each in value.values() if isinstance(each, dict)]
    for each in by_kind or [value]:
        kind = each.get("rope_type", each.get("type"))
        lacks = [key for key in _ROPE.get(str(kind), ()) if each.get(key) is None]
        if lacks:
            return f"has no {', '.join(lacks)}"
        if texts := [k for k, v in each.items() if isinstance(v, str) and _AS_TEXT.fullmatch(v)]:
            return f"has texts as {', '.join(texts)}"
    return ""

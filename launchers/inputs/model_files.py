"""The check that a folder is a model in Hugging Face format, whole, and one that can be trained."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.exits import LaunchError
from launchers.inputs import model_weights
from launchers.inputs.model_weights import (
    ADAPTER,
    FROM_MEGATRON,
    IS_MEGATRON,
    MEGATRON,
    OTHER,
    document,
    refusal,
)
from launchers.inputs.models import installed_class, template, values
from launchers.inputs.models.installed_class import NAME
from launchers.plan.model_config import EXPERTS, parse_config, quantization, text_config
from launchers.storage import manifest
from launchers.system import lookup
from launchers.system.atomic_file import read_object

_READ = re.compile(r"[^.].*\.(?:json|safetensors|bin|model|txt|jinja|py|tiktoken)")
"""Files that trainers may read."""
_EXPERT = re.compile(r"(.*\.layers\.\d+)\..*\bexperts\.(\d+)\.")
_LAYER = re.compile(r"model\.layers\.(\d+)\.")
_QUERY, _KEY = "num_attention_heads x head_dim", "num_key_value_heads x head_dim"
_KIND = re.compile(
    r"(?:(?:model\.)?(?:language_model\.)?(?:model\.)?layers\.\d+\.)?"
    r"(lm_head|input_layernorm|(?:self_attn|mlp)\.[\w.]+?)(?:\.weight)?"
)
"""A tensor of the decoder: vision towers have other names before ``layers``."""
_LAYERS = "layers_block_type"
"""The kind of each layer of Nemotron-H: transformers 5 saves no number of layers with it."""
_AXES = {
    "input_layernorm": ("hidden_size",),
    "self_attn.q_proj": (_QUERY, "hidden_size"),
    "self_attn.k_proj": (_KEY, "hidden_size"),
    "mlp.gate_proj": ("intermediate_size", "hidden_size"),
    "mlp.experts.0.gate_proj": ("moe_intermediate_size", "hidden_size"),
    "mlp.experts.gate_up_proj": ("num_experts",),
    "lm_head": ("vocab_size", "hidden_size"),
}
"""Sizes of the axes of kinds of tensors, which most families name so (transformers
``modeling_*.py``)."""
_CACHE = re.compile("hub|snapshots|models--.*")
"""Folders of the hub's cache around the one with a model."""
_ONE_MODEL = "name the folder with config.json, tokenizer and safetensors of one model"
_ON_MEGATRON = ("fp8", "mxfp4", "compressed-tensors")
"""Quantized weights that mcore-bridge turns into bf16 as it reads them
(``mcore_bridge/bridge/gpt_bridge.py``, ``utils/dequantizer.py``)."""
_NEVER = frozenset(
    {"auto-round", "fbgemm_fp8", "fp8", "gemma", "higgs", "metal", "mxfp8", "nvfp4", "quark"}
    | {"spqr", "vptq"}
)
"""Methods whose quantizer in transformers is not trainable, even with an adapter
(``quantizers/quantizer_*.py``: ``is_trainable``)."""
_BY_ADAPTER = frozenset(
    {"aqlm", "awq", "bitsandbytes", "eetq", "gptq", "hqq", "quanto", "sinq", "torchao"}
)
"""Methods that transformers trains with an adapter alone (``trainer_utils.py``:
``validate_quantization_for_training``)."""


def check_folder(model: Path, name: str, recipe: Recipe) -> None:
    """Refuse a folder that no trainer can load, or that it would load only in part.

    Args:
        model: the model's folder, which exists.
        name: its source, for the message.
        recipe: the run's recipe.

    Raises:
        LaunchError: DATA for what is wrong with the folder; IO if the storage does not answer: what
            cannot be read is not damaged.
    """
    if recipe.script:  # what it reads is not known
        return
    _links(model, name)
    config = _config(model, name)
    _code(model, name, config, recipe.backend)
    if wrong := unsuitable(config, recipe):
        raise refusal(*wrong)
    has_head = recipe.preference != "rm" and recipe.arg("task_type", "causal_lm") == "causal_lm"
    held = model_weights.check(model, name, config, recipe.backend, has_head=has_head)
    _compare(name, config, held)
    if not quantization(config):
        _shapes(name, config, held)
    template.check(model, name, config, recipe)


def check_local_source(recipe: Recipe) -> None:
    """Check a ``file://`` model before its tens of gigabytes are copied.

    Args:
        recipe: the run's recipe. A folder that is missing or empty is left to the download stage.

    Raises:
        LaunchError: as ``check_folder``.
    """
    model = sources.parse_source(recipe.model, "recipe.model")
    folder = Path(model.repo)
    if model.hub == "file" and lookup.is_dir(folder) and any(manifest.files(folder)):
        check_folder(folder, recipe.model, recipe)


def unsuitable(config: Mapping[str, object], recipe: Recipe) -> tuple[str, str, str] | None:
    """Return id, cause and remedy where a model's config.json says that it cannot be trained.

    On Megatron also where it lacks a size: the default of the model's class would count, which is
    another model's size.
    """
    if wrong := values.wrong(config, recipe) or template.unknown_type(config, recipe):
        return wrong
    if recipe.backend == "megatron":
        if wrong := template.off_megatron(config, recipe):
            return wrong
        try:
            parse_config(config)
        except LaunchError as error:
            if error.id == "model-size-missing" and _LAYERS not in config:
                return error.id, error.cause.replace("the model", recipe.model), error.remedy
    method = quantization(config)
    if recipe.backend == "megatron":
        is_wrong = method not in _ON_MEGATRON
    else:
        is_wrong = method in _NEVER or (method in _BY_ADAPTER and not recipe.trains_adapter)
    if method and is_wrong:
        says = f"{recipe.model} has weights quantized by {method}, which cannot be trained"
        by_adapter = method in _BY_ADAPTER and recipe.backend == "transformers"
        remedy = "use the model in bf16" + (", or tuner_type: lora" if by_adapter else "")
        return "model-quantized", says, remedy
    if template.registers(recipe) or not (why := installed_class.refused(config)):
        return None
    remedy = f"copy the {NAME} of the model again, or write a value that its class takes"
    return "model-config-class", f"{recipe.model}: {why}", remedy


def _links(model: Path, name: str) -> None:
    """Refuse links to nothing, as in a snapshot that was copied without the cache's blobs."""
    listed = [each for each in lookup.entries(model) if _READ.fullmatch(each)]
    if broken := [each for each in listed if _is_lost(model / each)]:
        says = f"{name}: {len(broken)} files are links to nothing: {', '.join(broken[:3])}"
        remedy = "copy what they link to (cp -rL), or mount the cache's whole folder of the model"
        raise refusal("model-link-broken", says, remedy)


def _is_lost(path: Path) -> bool:
    """Return whether a name has no file at its end, also where links lead to each other."""
    return lookup.is_link(Path(os.path.realpath(path))) or not lookup.exists(path)


def _code(model: Path, name: str, config: Mapping[str, Any], backend: str) -> None:
    """Refuse a model without the code that its files name: training is offline.

    ms-swift trusts a model's code (``trust_remote_code``); Megatron takes its config class alone.
    """
    settings = read_object(model / "tokenizer_config.json").get("auto_map")
    settings = settings.get("AutoTokenizer") if isinstance(settings, dict) else settings
    listed = settings if isinstance(settings, list) else [settings]  # the slow class, the fast one
    named, kinds = config.get("auto_map"), ("AutoConfig", "AutoModelForCausalLM")
    named = dict(named) if isinstance(named, dict) else {}
    named["AutoTokenizer"] = next(filter(None, reversed(listed)), None)
    for kind in (*kinds[: 2 if backend == "transformers" else 1], "AutoTokenizer"):
        repository, _, where = str(named.get(kind) or "").rpartition("--")
        file = f"{where.partition('.')[0]}.py"
        if where and (repository or not lookup.is_file(model / file)):
            own = "tokenizer_config.json" if kind == "AutoTokenizer" else NAME
            says = f"{name}: {own} names code that is not in the folder: {kind} in {file}"
            source = f" of {repository}" if repository else ""
            remedy = f"copy {file}{source} to it, and write auto_map without repository; or remove "
            raise refusal("model-code-missing", says, f"{remedy}auto_map if transformers has it")


def _config(model: Path, name: str) -> Mapping[str, Any]:
    """Return config.json."""
    found = document(model / NAME, name, "model-config-json", f"copy {NAME} of the model again")
    if not lookup.is_file(model / NAME):
        if lookup.is_file(model):
            says = f"{name} is a file, not a folder with a {NAME}"
            raise refusal("model-is-file", says, _ONE_MODEL)
        raise refusal(*_other(model, name))
    if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
        raise refusal("model-type-missing", f"{name}: {NAME} has no model_type", _ONE_MODEL)
    if wrong := values.numbers(found, name):
        raise refusal(*wrong)
    return found


def _compare(name: str, config: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    """Refuse other numbers of experts than config.json says, and name layers beyond its number."""
    sizes = text_config(config)
    count = next((n for n in map(sizes.get, EXPERTS) if isinstance(n, int)), 0)
    experts: dict[str, set[str]] = {}
    for found in filter(None, map(_EXPERT.match, held)):
        experts.setdefault(found[1], set()).add(found[2])
    for layer, numbers in experts.items():
        if count and len(numbers) != count:
            says = f"{name}: {NAME} has {count} experts, and {layer} has weights of {len(numbers)}"
            raise refusal("model-experts", says, f"copy the {NAME} of these weights")
    length, more = sizes.get("num_hidden_layers"), sizes.get("num_nextn_predict_layers") or 0
    layers = {int(found[1]) for found in map(_LAYER.match, held) if found}
    if isinstance(length, int) and max(layers, default=-1) >= length + more:
        what = f"{sum(each >= length for each in layers)} by num_hidden_layers: {length}"
        logs.warning("layers of the model are left out", model=name, what=what)


def _shapes(name: str, config: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    """Refuse other sizes in config.json than all tensors of a kind have.

    Kinds of which some layers have the size pass: layers may have sizes of their own.
    """
    try:
        size = parse_config(config)
    except LaunchError as error:  # sizes that differ by layer, or have other names
        logs.warning("sizes not compared with the weights", model=name, why=error.cause)
        return
    has_width = "head_dim" in text_config(config) and "kv_lora_rank" not in size.unmodelled
    sizes = {
        "hidden_size": (size.hidden,),
        "vocab_size": (size.vocab,),
        "intermediate_size": (size.ffn,),
        "moe_intermediate_size": (size.expert_ffn,),
        "num_experts": (size.experts, size.experts + config.get("zero_expert_num", 0)),
        _QUERY: (has_width * size.q_width, 2 * size.q_width),  # twice: with a gate of the output
        _KEY: (has_width * size.kv_width,),
    }
    kinds: dict[str, list[tuple[str, list[int]]]] = {}
    for tensor, entry in held.items():
        if found := _KIND.fullmatch(tensor):
            kind = re.sub(r"\.\d+\.", ".0.", found[1])
            kinds.setdefault(kind, []).append((tensor, entry["shape"]))
    for kind, axes in _AXES.items():
        for axis, key in enumerate(axes):
            tensors = [each for each in kinds.get(kind, ()) if len(each[1]) > axis]
            right = sizes[key]
            if all(right) and tensors and all(shape[axis] not in right for _, shape in tensors):
                says = f"{NAME} has {key}: {right[0]}, and {tensors[0][0]} is {tensors[0][1]}"
                remedy = f"copy the {NAME} of these weights, or the weights of this {NAME}"
                raise refusal("model-shapes", f"{name}: {says}", remedy)


def _other(model: Path, name: str) -> tuple[str, str, str]:
    """Return id, cause and remedy for a folder without config.json, by what it holds."""
    found, none = lookup.entries(model), f"{name} has no {NAME}"
    if ADAPTER in found:
        base = read_object(model / ADAPTER).get("base_model_name_or_path") or "its base model"
        remedy = (
            f"name {base} as recipe.model and this folder as recipe.args.adapters, or merge both: "
            "swift export --merge_lora true"
        )
        return "model-is-adapter", f"{none}: it is an adapter (LoRA) of {base}", remedy
    if any(map(MEGATRON.fullmatch, found)):
        return "model-is-megatron", f"{none}: {IS_MEGATRON}", FROM_MEGATRON
    if inner := _inner(model, found):
        where = f"{name.rstrip('/')}/{inner}"
        return "model-is-output", f"{none}, but {inner} in it has", f"name that folder: {where}"
    if other := next(filter(OTHER.fullmatch, found), ""):
        says = f"{none}: its weights are of another format ({other})"
        return "model-is-other-format", says, "name the model in Hugging Face format"
    return "model-config-missing", none, _ONE_MODEL


def _inner(model: Path, found: Mapping[str, bool], depth: int = 2) -> str:
    """Return the last checkpoint or snapshot below a folder, as a relative path; or empty.

    ms-swift writes ``v0-DATE/checkpoint-STEP``, the hub's cache has ``snapshots/COMMIT``.
    """
    names = [name for name, is_dir in found.items() if is_dir]
    main = (lookup.text(model.parent / "refs" / "main") or "").strip()  # of a cache's snapshots

    def rank(each: str) -> tuple[bool, int]:
        return each == main, int("0" + re.sub(r"\D", "", each))

    for name in sorted(names, key=rank, reverse=True):
        inside = lookup.entries(model / name)
        if NAME in inside or ADAPTER in inside:
            return name
        left = depth - (not _CACHE.fullmatch(name))
        if left > 0 and (deeper := _inner(model / name, inside, left)):
            return f"{name}/{deeper}"
    return ""

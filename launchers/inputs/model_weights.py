"""The check of a model's weights: their files, each file's length, and the names of the tensors.

transformers reads ``model.safetensors`` where it is there, otherwise the index
(``modeling_utils.py``: ``_get_resolved_checkpoint_files``); mcore-bridge reads the index first and
no other format (``mcore_bridge/utils/safetensors.py``), and leaves random weights where the output
layer is missing (``bridge/gpt_bridge.py``: ``_convert_post_process``).
"""

import codecs
import json
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.hub.fetch import INDEX
from launchers.plan import model_config
from launchers.plan.model_config import is_tied, levels, quantization, text_config
from launchers.storage.seal_check import (
    PART_BYTES,
    WEIGHTS,
    Header,
    file_part,
    header,
    lost,
    sizes_of,
)
from launchers.system import lookup
from launchers.system.threads import each

Tensors = Mapping[str, tuple[str, Header]]
"""File and header by the name of a tensor."""
WHOLE = f"model{WEIGHTS}"
ADAPTER = "adapter_config.json"
_ZIP_END = 1 << 17
"""Bytes that hold the end of a ZIP file's directory: at most 64 KiB of a comment, and records."""
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
POINTER = b"version https://git-lfs.github.com/spec/"
"""The first bytes of a file that git checked out without git-lfs."""
_WRAPPED = re.compile(
    r"((?:.*\.)?base_model\.model\.|(?:module|_orig_mod|_fsdp_wrapped_module)\.|.*\.lora_A\.default"
    r"|.*\.base_layer\.).*"
)
"""Names of tensors saved from a model inside another one: PEFT, DDP, torch.compile, FSDP. No
trainer finds them: transformers begins with random weights and says so in a warning."""
_PACKED = re.compile(r"F4|F[68]_.*|[UI](?:8|32)")
"""Types of safetensors that hold quantized weights."""
_WEIGHT = re.compile(r".*(?:\.(?:q?_?weight|weight_packed)|_blocks)")
_UNFINISHED = re.compile(r".*\.(?:incomplete|aria2|crdownload|part|partial|download|tmp)")
"""What downloads that were interrupted leave."""
OTHER = re.compile(
    r".*\.(?:gguf|nemo|onnx|h5|msgpack|pth|zip|tar|t?gz|zst)|consolidated\..*|params\.json"
)
"""Weights of llama.cpp, of other frameworks, in the form of Meta and Mistral; and archives."""
MEGATRON = re.compile(r"latest_checkpointed_iteration\.txt|iter_\d{7}|common\.pt|.*\.distcp")
"""What Megatron writes (megatron-core ``dist_checkpointing``, older ones ``checkpointing.py``)."""
_EMBEDDING, _HEAD, _META = "embed_tokens.weight", "lm_head.weight", "tok_embeddings.weight"
_OPTIONAL = re.compile(r".*(?:scale\w*|zero_point|inv_freq)")
_SHARED = re.compile(rf"{_OPTIONAL.pattern}|self_attn\.[kv]_.*")
"""Tensors that some layers lack: buffers, scales of layers that are not quantized; and where layers
share them (Gemma 3n and 4, Hunyuan) keys and values."""
_SHARING = ("num_kv_shared_layers", "use_cla", "cla_share_factor")
_BY_LAYER = re.compile("layer|block|pattern|freq|ratio|idx|indices")
"""Keys of config.json whose lists say which layers are of a kind."""
_NAMED = 3
"""Names in a message."""
_SAMPLES = 8
"""Parts of two tensors that are compared: equal copies differ nowhere, trained ones everywhere."""
_MISSING = "model-tensors-missing"
_AGAIN = "copy or download the model again"
IS_MEGATRON = "it is a checkpoint in Megatron's format"
FROM_MEGATRON = "convert it: megatron export --to_hf true, or name a model in Hugging Face format"
_METHODS = frozenset(
    {"aqlm", "auto-round", "awq", "bitnet", "bitsandbytes", "compressed-tensors", "eetq", "fp8"}
    | {"fbgemm_fp8", "fouroversix", "fp_quant", "gemma", "gptq", "higgs", "hqq", "metal", "mxfp4"}
    | {"mxfp8", "nvfp4", "quanto", "quark", "sinq", "spqr", "torchao", "vptq"}
)
"""Quantization that transformers knows (``quantizers/auto.py``); it leaves out any other with a
warning, and takes packed numbers for weights."""
_NO_METHOD = "config.json names no method that transformers knows"


def check(
    folder: Path, name: str, config: Mapping[str, Any], backend: str, *, has_head: bool = True
) -> dict[str, Any]:
    """Refuse weights that trainers would miss or replace by random ones; return others' entries.

    Args:
        folder: of the model.
        name: its source, for the message.
        config: its config.json.
        backend: ``megatron`` or ``transformers``.
        has_head: whether training uses the output layer; a reward model has one of its own.

    Raises:
        LaunchError: DATA, naming the files or tensors; IO if the storage does not answer.
    """
    listed = lookup.entries(folder)
    if ADAPTER in listed and {WHOLE, INDEX} & {*listed}:
        says = f"{name} holds an adapter next to a whole model: transformers adds it, Megatron not"
        raise refusal("model-with-adapter", says, f"merge it, or move {ADAPTER} out of the folder")
    index = _index(folder, name, backend) if INDEX in listed else None
    if index is not None and not {WHOLE} & {*index.values()} and WHOLE in listed:
        _two_copies(name, index, listed, backend)
        index = index if backend == "megatron" else None
    if index is None and WHOLE not in listed:
        _not_safetensors(folder, name, listed, backend)
        return {}
    tensors = _tensors(folder, name, index or {"": WHOLE})
    if index and backend == "megatron":  # transformers reads all tensors of the files
        tensors = {key: tensors[key] for key in index}
    if bare := {_META, *[_EMBEDDING] * (backend == "megatron")} & {*tensors}:
        says = f"{name}: {_some(bare)} is not named as in a model of the class for causal training"
        raise refusal("model-tensor-prefix", says, "save it with AutoModelForCausalLM")
    _names(name, config, tensors)
    if has_head:
        outer = config.get("tie_word_embeddings")  # counts in transformers, the inner in Megatron
        tied = is_tied(config) if outer is None or backend == "megatron" else bool(outer)
        _head(folder, name, config, tied, tensors)
    _layers(name, config, tensors)
    return {key: head.tensors[key] for key, (_, head) in tensors.items()}


def refusal(id: str, says: str, remedy: str = _AGAIN) -> LaunchError:
    """Return the refusal of a model."""
    return LaunchError(
        Exit.DATA, f"recipe.model: {says}", remedy, id=id, failure_class=FailureClass.MODEL
    )


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more


def _index(folder: Path, name: str, backend: str, file: str = INDEX) -> dict[str, str]:
    id = "model-index"
    held = document(folder / file, name, id, _AGAIN)
    found = held.get("weight_map") if isinstance(held, dict) else None
    if not isinstance(found, dict) or not found:
        raise refusal(id, f"{name}: {file} is not JSON with a weight_map")
    if backend == "transformers" and not isinstance(held.get("metadata"), dict):
        says = f"{name}: {file} has no metadata, which transformers reads"
        raise refusal("model-index-metadata", says, 'add "metadata": {} to it')
    return {str(tensor): str(file) for tensor, file in found.items()}


def document(path: Path, name: str, id: str, remedy: str) -> Any:
    """Return the content of a JSON file of a model; None without such a file.

    Raises:
        LaunchError: DATA, saying what the file is; IO if the storage does not answer.
    """
    try:
        text = lookup.text(path)
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        begin, cause = lookup.begin(path, 200) or b"", error
    if begin.startswith(POINTER):
        is_what, remedy = "a git-lfs pointer, not the file itself", "run git lfs pull in the folder"
    elif not begin.strip():
        is_what = "empty"
    elif begin.lstrip().startswith(b"<"):
        is_what = "a web page, not JSON"
    elif begin.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        is_what, remedy = "JSON with a byte-order mark", "save it as UTF-8 without that mark"
    else:
        is_what = f"not JSON: {cause}"
    raise refusal(id, f"{name}: {path.name} is {is_what}", remedy)


def _two_copies(name: str, index: Mapping[str, str], listed: Collection[str], backend: str) -> None:
    """Judge a folder with a whole file and an index that names others."""
    missing = {*index.values()} - {*listed}
    if missing and backend == "megatron":
        says = f"{name}: {INDEX} names {_some(missing)}, which are missing, next to {WHOLE}; "
        raise refusal(
            "model-index-stale",
            f"{says}Megatron reads the index",
            f"remove {INDEX} if {WHOLE} is the model, or add the missing files",
        )
    read = "what the index names" if backend == "megatron" else WHOLE
    logs.warning("model has two copies of its weights", index=INDEX, file=WHOLE, read=read)


def _not_safetensors(folder: Path, name: str, listed: Collection[str], backend: str) -> None:
    """Judge a folder with neither an index nor a whole file of safetensors."""
    if any(file in listed for file in _PICKLED):
        if backend == "transformers":
            return _check_pickled(folder, name, listed)
        raise refusal(
            "model-not-safetensors",
            f"{name} has its weights in .bin files; Megatron reads safetensors",
            "load it with transformers (from_pretrained) and save it again (save_pretrained)",
        )
    if ADAPTER in listed:
        remedy = "name the base model, or merge the adapter"
        raise refusal("model-is-adapter", f"{name} holds an adapter (LoRA) alone", remedy)
    none = f"{name} has neither {WHOLE} nor {INDEX}"
    if found := [file for file in listed if _UNFINISHED.fullmatch(file)]:
        raise refusal("model-unfinished", f"{none}, but an unfinished download: {_some(found)}")
    if any(map(MEGATRON.fullmatch, listed)):
        raise refusal("model-is-megatron", f"{none}: {IS_MEGATRON}", FROM_MEGATRON)
    if found := [file for file in listed if OTHER.fullmatch(file)]:
        says = f"{none}; its weights are of another format ({_some(found)})"
        raise refusal("model-is-other-format", says, "name the model in Hugging Face format")
    if any(file.startswith("global_step") or file == "zero_to_fp32.py" for file in listed):
        remedy = "run its zero_to_fp32.py, which writes the weights in Hugging Face format"
        raise refusal("model-is-output", f"{none}: it is a checkpoint of DeepSpeed", remedy)
    if found := [file for file in listed if file.endswith((WEIGHTS, ".bin", ".pt"))]:
        says = f"{none} that names its weights: {_some(found)}"
        is_one = len(found) == 1 and found[0].endswith(WEIGHTS)
        remedy = f"rename it to {WHOLE}" if is_one else f"add {INDEX}; trainers read what it names"
        raise refusal("model-index-missing", says, remedy)
    raise refusal("model-weights-missing", f"{name} has no weights: {WHOLE} or {INDEX}")


def _check_pickled(folder: Path, name: str, listed: Collection[str]) -> None:
    """Judge ``.bin`` files, which transformers reads: all that the index names, none of them cut.

    torch.save writes a ZIP file, whose directory is at its end; before torch 1.6 a pickle.
    """
    whole, index = _PICKLED
    files = (
        [whole]
        if whole in listed
        else sorted({*_index(folder, name, "transformers", index).values()})
    )
    _refuse_missing(name, files, listed)
    for file in files:
        size = (folder / file).stat().st_size
        is_old = lookup.begin(folder / file, 1) == b"\x80"
        # of a path ``is_zipfile`` takes an error of the storage for "no"
        end = lookup.begin(folder / file, _ZIP_END, max(0, size - _ZIP_END)) or b""
        if not is_old and not zipfile.is_zipfile(BytesIO(end)):
            raise _damaged(folder, name, file, size, 0)


def _refuse_missing(name: str, files: Collection[str], there: Collection[str]) -> None:
    if missing := {*files} - {*there}:
        says = f"{name}: {len(missing)} of {len(files)} files of weights are missing: "
        raise refusal("model-shard-missing", says + _some(missing))


def _tensors(folder: Path, name: str, index: Mapping[str, str]) -> Tensors:
    """Return file and header of each tensor."""
    files = sorted({*index.values()})
    inside = [each for each in files if not Path(each).is_absolute() and ".." not in each]
    sizes = sizes_of(folder, [folder / file for file in inside])
    _refuse_missing(name, files, sizes)
    headers = dict(zip(files, each(lambda f: header(folder / f, sizes[f]), files), strict=True))
    for file, found in headers.items():
        if found.size != sizes[file] or not found.size:
            raise _damaged(folder, name, file, sizes[file], found.size)
        if wrong := lost(folder / file, found):
            raise refusal("model-file-zeros", f"{name}: {file} {wrong}")
    tensors = {key: (file, head) for file, head in headers.items() for key in head.tensors}
    absent = {key for key, file in index.items() if key and key not in headers[file].tensors}
    if absent:
        says = f"{name}: {INDEX} names tensors that its files lack: {_some(absent)}"
        raise refusal("model-index-differs", says)
    return tensors


def _damaged(folder: Path, name: str, file: str, size: int, wanted: int) -> LaunchError:
    if is_pointer(folder / file):
        says = f"{name}: {file} is a git-lfs pointer, not the file itself"
        return refusal("model-lfs-pointer", says, "run git lfs pull in the folder")
    if not wanted:
        says = f"{name}: {file} ({size} bytes) is not a whole file of weights"
        return refusal("model-file-damaged", says)
    return refusal("model-file-cut", f"{name}: {file} has {size} bytes, its header says {wanted}")


def is_pointer(path: Path) -> bool:
    """Return whether a file is a git-lfs pointer."""
    return lookup.is_file(path) and lookup.begin(path, len(POINTER)) == POINTER


def _head(
    folder: Path, name: str, config: Mapping[str, Any], tied: bool | None, tensors: Tensors
) -> None:
    """Judge the output layer, where the tensors have the usual names and the config says it."""
    said = "has" if any("tie_word_embeddings" in each for each in levels(config)) else "means"
    embeddings = [key for key in tensors if key.endswith(_EMBEDDING)]
    heads = [key for key in tensors if key.endswith(_HEAD)]
    if tied is None or not embeddings:
        return
    if not tied and not heads:
        raise refusal(
            "model-head-missing",
            f"{name}: {_HEAD} is missing, and config.json {said} tie_word_embeddings: false; it "
            "would begin with random weights",
            "use the whole model (a reward model has no such layer), or set tie_word_embeddings: "
            "true if it was trained so",
        )
    if tied and len(heads) == len(embeddings) == 1 and _differ(folder, tensors, heads, embeddings):
        raise refusal(
            "model-head-untied",
            f"{name}: config.json has tie_word_embeddings: true, but {_HEAD} differs from the "
            "embeddings and would be left out",
            f"set tie_word_embeddings: false, or remove {_HEAD}",
        )


def _differ(folder: Path, tensors: Tensors, heads: list[str], embeddings: list[str]) -> bool:
    """Return whether two tensors of the same type differ, by their shapes and parts of them."""
    (one, first), (two, second) = (
        (folder / tensors[key][0], tensors[key][1]) for key in (heads[0], embeddings[0])
    )
    a, b = first.tensors[heads[0]], second.tensors[embeddings[0]]
    if a["dtype"] != b["dtype"] or a["shape"] != b["shape"]:
        return bool(a["dtype"] == b["dtype"])
    begin, end = (first.start + at for at in a["data_offsets"])
    start, stop = (second.start + at for at in b["data_offsets"])
    length = end - begin
    starts = range(0, max(1, length - PART_BYTES), max(1, length // _SAMPLES))
    return any(file_part(one, begin + n, end) != file_part(two, start + n, stop) for n in starts)


def _names(name: str, config: Mapping[str, Any], tensors: Tensors) -> None:
    """Refuse tensors that trainers do not find, or take for what they are not."""
    if wrapped := [match[1] for match in map(_WRAPPED.fullmatch, tensors) if match]:
        says = f"{len(wrapped)} of {len(tensors)} tensors are named {wrapped[0]}..., as in a model "
        inner = "the inner model: save_pretrained, of PEFT after merge_and_unload"
        remedy = f"remove {wrapped[0]} from the names, or save {inner}"
        raise refusal("model-tensor-names", f"{name}: {says}inside another", remedy)
    entries = {key: head.tensors[key] for key, (_, head) in tensors.items()}
    packed = [
        f"{key}: {entry['dtype']}"
        for key, entry in entries.items()
        if _PACKED.fullmatch(entry["dtype"]) and _WEIGHT.fullmatch(key)
    ]
    if packed and quantization(config).split(" ")[0] not in _METHODS:
        says = f"{name} has {len(packed)} quantized weights ({packed[0]}), and {_NO_METHOD}"
        raise refusal("model-quantized", says, "use the model in bf16")
    if not any(re.search("emb|wte", key) for key in entries):
        raise refusal(_MISSING, f"{name} has no weights of the embeddings")
    found = [key for key in entries if key.endswith(_EMBEDDING)]
    size = text_config(config).get("vocab_size")
    rows = entries[found[0]]["shape"][0] if len(found) == 1 else size
    if isinstance(size, int) and rows != size:
        says = f"{name}: config.json has vocab_size: {size}, and {found[0]} has {rows} rows"
        raise refusal("model-vocabulary", says, f"write vocab_size: {rows}, or use the whole model")


def _layers(name: str, config: Mapping[str, Any], tensors: Collection[str]) -> None:
    """Refuse weights without a layer that the config counts, or without a tensor of one."""
    count = text_config(config).get("num_hidden_layers")
    before = [key.removesuffix(_EMBEDDING) for key in tensors if key.endswith(_EMBEDDING)]
    if not isinstance(count, int) or len(before) != 1:
        return
    begin = f"{before[0]}layers."
    held: dict[int, set[str]] = {}
    for match in filter(None, map(re.compile(rf"{re.escape(begin)}(\d+)\.(.+)").match, tensors)):
        held.setdefault(int(match[1]), set()).add(match[2])
    missing = [str(layer) for layer in range(count) if layer not in held]
    if missing and (held or not any(re.search(r"\.\d+\.", key) for key in tensors)):
        says = f"{name}: {len(missing)} of {count} layers have no weights: {', '.join(missing[:8])}"
        raise refusal("model-layers-missing", says)
    lacking = _lacking(config, {layer: frozenset(held[layer]) for layer in range(count) if held})
    if absent := [f"{begin}{layer}.{tensor}" for layer, more in lacking for tensor in more]:
        raise refusal(_MISSING, f"{name} has no {_some(absent)}, which its other layers have")


def _lacking(
    config: Mapping[str, Any], held: Mapping[int, frozenset[str]]
) -> Iterator[tuple[int, set[str]]]:
    """Yield layers, and the tensors that as many other layers of their kind have besides theirs.

    Layers of another kind have tensors of their own: experts, or another attention.
    """
    size = text_config(config)
    may_lack = _SHARED if any(map(size.get, _SHARING)) else _OPTIONAL
    try:
        dense = model_config.parse_config(config).dense
    except LaunchError:  # not a model of known sizes
        dense = ()
    listed = [v for k, v in size.items() if isinstance(v, list) and _BY_LAYER.search(k)]
    kinds: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for layer, names in held.items():
        said = [v[layer] if len(v) == len(held) else layer in v for v in listed]
        needed = frozenset(each for each in names if not may_lack.fullmatch(each))
        kinds.setdefault(str([layer in dense, *said]), []).append((layer, needed))
    for layers in kinds.values():
        counts = Counter(names for _, names in layers)
        for layer, names in layers:
            more = [set(m - names) for m, n in counts.items() if names < m and n >= counts[names]]
            yield from ((layer, each) for each in more[:1])

"""A small model in Hugging Face format, written without torch, and what may be wrong with one."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launchers.plan.model_config import text_config

HIDDEN, VOCABULARY, LAYERS = 8, 16, 2
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
CONFIG: dict[str, Any] = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
CONFIG |= {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
CONFIG |= {"intermediate_size": 16, "vocab_size": VOCABULARY, "tie_word_embeddings": True}
TOKENIZER = '{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}'
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 2233840\n"


def tensors(layers: int = LAYERS, rows: int = VOCABULARY) -> dict[str, bytes]:
    found = {EMBEDDING: bytes(range(2 * HIDDEN)) * rows}
    for layer in range(layers):
        found[f"model.layers.{layer}.self_attn.q_proj.weight"] = bytes(2 * HIDDEN * HIDDEN)
    return found


def write_weights(path: Path, held: Mapping[str, bytes]) -> None:
    header, end = dict[str, Any](), 0
    for name, data in held.items():
        shape = [len(data) // (2 * HIDDEN), HIDDEN]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(held.values()))


def write(folder: Path, held: Mapping[str, bytes] | None = None, **config: Any) -> Path:
    """Write a whole model in one file; None removes a key of its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in (CONFIG | config).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    (folder / "tokenizer.json").write_text(TOKENIZER)
    rows = int(text_config(kept).get("vocab_size", VOCABULARY))
    write_weights(folder / WHOLE, tensors(rows=rows) if held is None else held)
    return folder


def split(folder: Path, write_files: Iterable[str] = (ONE, TWO)) -> Path:
    """Replace the weights of a model by an index and the named files."""
    found = sorted(tensors().items())
    parts = {ONE: dict(found[:1]), TWO: dict(found[1:])}
    (folder / WHOLE).unlink()
    for name in write_files:
        write_weights(folder / name, parts[name])
    named = {key: name for name, part in parts.items() for key in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": named}))
    return folder

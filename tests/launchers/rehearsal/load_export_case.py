"""Read exports back in the training environment; prints one JSON object a case.

``python load_export_case.py FOLDER`` makes a tiny Qwen3, and exports of it with a fault each.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from launchers.rehearsal import load_export

Tensors = dict[str, torch.Tensor]


def make(folder: Path) -> None:
    config = Qwen3Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({f"w{n}": n for n in range(32)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)


def drop(tensors: Tensors) -> None:
    del tensors["model.norm.weight"]


def widen(tensors: Tensors) -> None:
    tensors["model.norm.weight"] = torch.zeros(17)


def corrupt(tensors: Tensors) -> None:
    tensors["model.norm.weight"][3] = float("nan")


def export(root: Path, name: str, change: Callable[[Tensors], None] | None) -> Path:
    folder = root / name
    shutil.copytree(root / "model", folder)
    if change is not None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def main() -> None:
    root = Path(sys.argv[1])
    make(root / "model")
    found = {
        name: asdict(load_export.load(export(root, name, change), root / "model"))
        for name, change in (("whole", None), ("short", drop), ("wide", widen), ("nan", corrupt))
    }
    load_export.RUN_BYTES = 1
    found["large"] = asdict(load_export.load(export(root, "large", None), root / "model"))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""A dense Qwen3 of about 0.6 M parameters with random weights, and its tokenizer, as HF files.

Usage, in the training environment: python -m scripts.demo.model PAIRS.jsonl FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scripts.demo.pairs import Pair, read_jsonl
from scripts.demo.tokenizer import train_tokenizer

SEED = 20
SHAPE = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def texts(pairs: list[Pair]) -> list[str]:
    """What the tokenizer learns from: the training pairs only."""
    return [text for pair in pairs for text in (pair.prompt, pair.chosen)]


def make_model(pairs: list[Pair], folder: Path) -> int:
    """Writes model and tokenizer into `folder`; returns the number of parameters."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(texts(pairs))
    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
        **SHAPE,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Makes the model of the two command line arguments."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m scripts.demo.model PAIRS.jsonl FOLDER")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    count = make_model(read_jsonl(Path(sys.argv[1])), Path(sys.argv[2]))
    print(count)


if __name__ == "__main__":
    main()

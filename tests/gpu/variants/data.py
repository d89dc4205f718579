"""Model and pairs of ``tests.gpu.variants``: small, and sensitive to faults."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

from tests.gpu.bench.shared import Bench
from tests.gpu.model import pairs, random_model
from tests.gpu.model.weights import Gains

MODEL_CONFIG = random_model.Config(
    num_hidden_layers=4,
    hidden_size=1024,
    num_attention_heads=8,
    num_key_value_heads=2,
    num_experts=32,
    moe_intermediate_size=256,
)
"""With the vocabulary of the tokenizer."""
GAINS = Gains(attention=6.0, experts=10.0)
"""With gains of 1 the layers contribute a hundredth of the stream, and a model that lacks one of
eight experts would pass; with much larger ones near-ties of the routers dominate, and rounding
looks like a fault (``faults.py``; figures in NOTES.md)."""
PAIRS = 64
"""All pairs are one step, so every variant's first step has the same pairs."""
PROMPT, ANSWERS, SHORTEST = 40, 830, 300
"""Tokens of a prompt, of both answers of a pair, and of the shortest answer. With the prompt twice
and the template (``pairs.TEMPLATE``) a pair has ``LEAST`` to ``MOST``."""
LEAST, MOST = 2 * PROMPT + ANSWERS + 2, 1024
"""Tokens of a pair: any eight but no nine fit a pack of 8,192, any four a pack of 4,096."""


def model_config(tokenizer: Path) -> random_model.Config:
    """Return the sizes of the model."""
    return replace(MODEL_CONFIG, vocab_size=random_model.vocabulary(tokenizer))


def prepare(bench: Bench, tokenizer: Path) -> None:
    """Write model and pairs, and remove the files of an earlier run."""
    shutil.rmtree(bench.home, ignore_errors=True)
    random_model.write(bench.model, model_config(tokenizer), tokenizer, gains=GAINS)
    write(bench.data, tokenizer)


def write(path: Path, tokenizer: Path) -> None:
    """Write the pairs: texts of hundreds of tokens, all pairs of similar length."""
    known, chance = pairs.words(tokenizer), random.Random(7)
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(PAIRS):
            chosen = chance.randint(SHORTEST, ANSWERS - SHORTEST)
            sizes = (PROMPT, chosen, ANSWERS - chosen)
            asked, good, bad = (pairs.text(chance, known, size) for size in sizes)
            turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": good}]
            stream.write(json.dumps({"messages": turns, "rejected_response": bad}) + "\n")

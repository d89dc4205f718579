"""Model and pairs: packs of one, two and three pairs, in any order."""

import json
import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.model import pairs, random_model
from tests.bench.speed.shared import Bench

MODEL_CONFIG = replace(random_model.TINY, num_experts=16, num_experts_per_tok=4)
"""Four layers, with the vocabulary of the tokenizer."""
PROMPT = 40
"""Tokens of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Class:
    """Pairs of one size, so that every pack holds the same number."""

    pairs: int
    per_pack: int
    answers: tuple[int, int]
    """Fewest and most tokens of both answers together."""


CLASSES = (
    Class(pairs=4, per_pack=1, answers=(1430, 1640)),
    Class(pairs=8, per_pack=2, answers=(700, 800)),
    Class(pairs=12, per_pack=3, answers=(480, 500)),
)
"""With the prompt twice and the template, which adds 2 to 84 tokens, a pair of the last class has
562 to 666 tokens. Three of them fit into a pack of 2,048, four do not, and none fits into a
pack with pairs of another class, which leave at most 536 and 484 tokens."""
PAIRS = sum(each.pairs for each in CLASSES)
PACKS = sum(each.pairs // each.per_pack for each in CLASSES)


def model_config(tokenizer: Path) -> random_model.Config:
    return replace(MODEL_CONFIG, vocab_size=random_model.vocabulary(tokenizer))


def prepare(bench: Bench, tokenizer: Path) -> None:
    """Write model and pairs, and remove the files of an earlier run."""
    shutil.rmtree(bench.home, ignore_errors=True)
    random_model.write(bench.model, model_config(tokenizer), tokenizer)
    write(bench.data, tokenizer)


def write(path: Path, tokenizer: Path) -> None:
    """Write the pairs: each answer has about half of a pair's tokens."""
    known, chance = pairs.words(tokenizer), random.Random(7)
    kinds = [each for each in CLASSES for _ in range(each.pairs)]
    chance.shuffle(kinds)
    with path.open("w", encoding="utf-8") as stream:
        for kind in kinds:
            answers = chance.randint(*kind.answers)
            chosen = round(answers * chance.uniform(0.45, 0.55))
            sizes = (PROMPT, chosen, answers - chosen)
            asked, good, bad = (pairs.text(chance, known, size) for size in sizes)
            turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": good}]
            stream.write(json.dumps({"messages": turns, "rejected_response": bad}) + "\n")

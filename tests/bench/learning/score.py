"""Held-out figures of a checkpoint, by transformers alone and in fp32, with no code of the trainer.

It runs on the first visible GPU, else on the CPU, where ten at once exceeded their trainings' time.

Run as ``python -m tests.bench.learning.score HELDOUT.jsonl BASE EXPORT BETA OUT.json``. Accuracy is
the share of pairs with log p(chosen) > log p(rejected); margin and loss are DPO's, against the base
(Rafailov et al. 2023, equation 7, without the NLL term of ``rpo_alpha``); ``chosen`` is the mean
log p(chosen), summed over a text.
"""

import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.demo import score as demo_score
from scripts.demo.pairs import Pair, read_jsonl

Sums = tuple[list[float], list[float]]
"""Log-probabilities of chosen and of rejected."""


def figures(new: Sums, base: Sums, beta: float) -> dict[str, float]:
    """Return the figures of log-probabilities.

    >>> figures(([-1.0], [-2.0]), ([-1.0], [-1.0]), 1.0)["margin"]
    1.0
    """
    rows = zip(*new, *base, strict=True)
    margins = [beta * ((c - c0) - (r - r0)) for c, r, c0, r0 in rows]
    return {
        "pairs": len(margins),
        "accuracy": demo_score.accuracy(*new),
        "loss": statistics.mean(map(_softplus, margins)),
        "margin": statistics.mean(margins),
        "chosen": statistics.mean(new[0]),
        "rejected": statistics.mean(new[1]),
    }


def _softplus(margin: float) -> float:
    """Return -log sigmoid(margin) without an overflow."""
    return max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))


def sums(folder: Path, base: Path, pairs: Sequence[Pair]) -> Sums:
    """Return the log-probabilities of a checkpoint, read with the base's config and tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    tokenizer, config = AutoTokenizer.from_pretrained(base), AutoConfig.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32)
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    texts = [(pair.prompt, pair.chosen) for pair in pairs]
    texts += [(pair.prompt, pair.rejected) for pair in pairs]
    rows = [demo_score.encode(tokenizer, prompt, answer) for prompt, answer in texts]
    found = demo_score.log_probabilities(model, tokenizer, rows)
    return found[: len(pairs)], found[len(pairs) :]


def main() -> None:
    """Write the figures of the command line's checkpoint, before and after."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # both are folders
    held_out, base, export, beta, out = sys.argv[1:]
    pairs = read_jsonl(Path(held_out))
    before = sums(Path(base), Path(base), pairs)
    after = sums(Path(export), Path(base), pairs)
    scores = {
        "before": figures(before, before, float(beta)),
        "after": figures(after, before, float(beta)),
    }
    Path(out).write_text(json.dumps(scores) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

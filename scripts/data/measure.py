"""The numbers of a dataset's pairs: lengths, duplicates, near-equal pairs, length bias, leaks."""

from __future__ import annotations

import importlib
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.inputs.row_pairs import Pair

SAMPLED = 4_000
"""Pairs whose texts are tokenised, evenly over the dataset."""
NEAR = 0.95
"""Share of the longer answer that both have in common, at its beginning and end, from which a pair
is near-equal."""
BIAS = 1.5
"""Ratio of the mean lengths of both answers from which there is a length bias."""

Lengths = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Lengths of one kind of text."""

    median: int
    p95: int
    max: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Spread:
        """Describe lengths.

        >>> Spread.of([1, 2, 3, 100])
        Spread(median=2, p95=100, max=100)
        """
        ordered = sorted(lengths) or [0]
        at = min(len(ordered) - 1, int(len(ordered) * 0.95))
        return cls(median=int(statistics.median(ordered)), p95=ordered[at], max=ordered[-1])


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The numbers of all pairs."""

    pairs: int
    sampled: int
    """Pairs whose lengths were taken."""
    unit: str
    """``tokens``, or ``characters`` without a tokenizer."""
    prompt: Spread
    chosen: Spread
    rejected: Spread
    shared: float
    """Share of the sampled pairs' tokens or characters that ``recipe.promptOnce`` leaves out: their
    prompts, once; the template's own tokens are not counted."""
    cut: float | None
    """Share of the sampled pairs longer than max_length, without the template's own tokens; None in
    characters."""
    duplicates: int
    """Pairs that occurred before."""
    repeated_prompts: int
    """Pairs whose prompt occurred before with another pair."""
    exchanged: int
    """Pairs that also occur with the chosen answer as the rejected one."""
    near_equal: int
    longer_chosen: float
    """Share of the sampled pairs whose chosen answer is the longer one."""
    bias: float
    """Mean length of the chosen answers over that of the rejected ones."""
    held_out: int | None
    """Held-out prompts that are trained on too; None without held-out pairs."""


def measure(
    pairs: Sequence[Pair], held_out: Sequence[Pair] | None, lengths: Lengths | None, limit: int
) -> Numbers:
    """Measure pairs.

    ``held_out`` pairs are evaluated; without ``lengths`` characters are counted.
    """
    step = -(-len(pairs) // SAMPLED) or 1
    sample = pairs[::step]
    count = lengths or (lambda texts: [len(text) for text in texts])
    prompts = count([pair.chosen.prompt for pair in sample])
    chosen = count([pair.chosen.answer for pair in sample])
    rejected = count([pair.rejected.answer for pair in sample])
    longest = [p + max(c, r) for p, c, r in zip(prompts, chosen, rejected, strict=True)]
    whole = Counter((p.chosen.prompt, p.chosen.answer, p.rejected.answer) for p in pairs)
    asked = Counter(prompt for prompt, _, _ in whole)
    leaked = {pair.chosen.prompt for pair in held_out} if held_out is not None else None
    total = max(1, len(sample))
    once = sum(n for n, pair in zip(prompts, sample, strict=True) if pair.has_one_prompt)
    return Numbers(
        pairs=len(pairs),
        sampled=len(sample),
        unit="tokens" if lengths else "characters",
        prompt=Spread.of(prompts),
        chosen=Spread.of(chosen),
        rejected=Spread.of(rejected),
        shared=once / max(1, 2 * sum(prompts) + sum(chosen) + sum(rejected)),
        cut=sum(n > limit for n in longest) / total if lengths else None,
        duplicates=len(pairs) - len(whole),
        repeated_prompts=sum(n - 1 for n in asked.values()),
        exchanged=sum(n for (p, c, r), n in whole.items() if c != r and (p, r, c) in whole),
        near_equal=sum(is_near(p.chosen.answer, p.rejected.answer) for p in pairs),
        longer_chosen=sum(c > r for c, r in zip(chosen, rejected, strict=True)) / total,
        bias=sum(chosen) / max(1, sum(rejected)),
        held_out=None if leaked is None else len(leaked & {*asked}),
    )


def is_near(one: str, other: str) -> bool:
    """Return whether two answers have nearly all of their text in common.

    >>> is_near("The answer is  42.", "the answer is 42"), is_near("yes", "no")
    (True, False)
    """
    left, right = (" ".join(each.casefold().split()).rstrip(".!?") for each in (one, other))
    if left == right:
        return True
    short, long = sorted((left, right), key=len)
    if len(short) < NEAR * len(long):
        return False
    begin = _common(short, long)
    end = min(len(short) - begin, _common(short[::-1], long[::-1]))
    return begin + end >= NEAR * len(long)


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning, by halves."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def tokenizer(model: Path | None) -> tuple[Lengths | None, str]:
    """Return the lengths in tokens of a local model's tokenizer, and why there are none.

    ``model``: the model's folder; None where it is not on this machine.
    """
    file = None if model is None else model / "tokenizer.json"
    if file is None or not file.is_file():
        return None, "the model's tokenizer.json is not on this machine: give --model FOLDER"
    try:
        library: Any = importlib.import_module("tokenizers")
    except ImportError:
        return None, "the package tokenizers is missing: pip install tokenizers"
    loaded = library.Tokenizer.from_file(str(file))

    def lengths(texts: Sequence[str]) -> list[int]:
        encoded = loaded.encode_batch_fast([*texts], add_special_tokens=False)
        return [len(each) for each in encoded]

    return lengths, ""

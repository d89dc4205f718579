"""How many pairs a recipe's dataset has, and how long they are, as far as this machine can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from launchers.config import sources
from launchers.exits import LaunchError
from launchers.plan.run_length import TOKENS, Data
from scripts.problem import Problem

CHARACTERS = 4.0
"""Characters of a token: the rule of thumb for English text with a vocabulary of 100,000 and more;
other languages and code have fewer."""
SAMPLE = 2000
"""Rows whose length is taken."""


def find(
    datasets: Sequence[str], *, pairs: int | None = None, tokens: float | None = None
) -> Data | None:
    """Size up a dataset.

    Args:
        datasets: the recipe's sources.
        pairs: their number, if the caller gave it.
        tokens: mean tokens of a pair, if the caller gave it.

    Returns:
        None when neither the caller nor a file of this machine tells the number.
    """
    if pairs is not None:
        assumed = "" if tokens else " assumed (--tokens)"
        return _data(pairs, tokens or TOKENS, assumed)
    counts, lengths = 0, list[float]()
    for place, text in enumerate(datasets):
        try:
            parsed = sources.parse(text, f"recipe.dataset[{place}]")
        except LaunchError as error:
            raise Problem(f"{error.cause}; {error.remedy}") from None
        file = Path(parsed.repo)
        if parsed.hub != "file" or file.suffix != ".jsonl" or not file.is_file():
            return None
        rows = sum(1 for _ in _lines(file))
        counts += rows if parsed.sample is None else parsed.sample
        lengths += _lengths(file)
    if not counts:
        return None
    mean = sum(lengths) / max(1, len(lengths)) / CHARACTERS or TOKENS
    guessed = "" if tokens else f" by {CHARACTERS:.0f} characters a token"
    return _data(counts, tokens or mean, guessed)


def _data(pairs: int, tokens: float, why: str) -> Data:
    return Data(pairs=pairs, tokens=tokens, source=f"{pairs:,} pairs of {tokens:,.0f} tokens{why}")


def _lengths(file: Path) -> list[float]:
    try:
        rows = [json.loads(line) for line in islice(_lines(file), SAMPLE)]
    except ValueError as error:
        raise Problem(f"{file} is no JSON lines file: {error}") from None
    return [_characters(row) for row in rows]


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", errors="replace") as handle:
        yield from (line for line in handle if line.strip())


def _characters(row: object) -> float:
    """Characters of a row of ms-swift's preference format, the prompt counted with each answer.

    >>> _characters({"messages": [{"role": "user", "content": "12345678"},
    ...                           {"role": "assistant", "content": "good"}],
    ...              "rejected_response": "bad"})
    23.0
    """
    if not isinstance(row, dict):
        return 0.0
    texts = _texts(row.get("messages"))
    chosen = float(sum(map(len, texts)))
    if "rejected_response" in row and texts:
        return 2 * chosen - len(texts[-1]) + len(str(row["rejected_response"]))
    return chosen + sum(map(len, _texts(row.get("rejected_messages"))))


def _texts(messages: object) -> list[str]:
    turns = messages if isinstance(messages, list) else []
    return [str(turn.get("content", "")) for turn in turns if isinstance(turn, dict)]

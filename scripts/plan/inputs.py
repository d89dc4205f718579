"""Sizes of a recipe's model and dataset, as far as this machine knows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from launchers.config import sources
from launchers.exits import LaunchError
from launchers.plan import model_config
from launchers.plan.model_config import ModelConfig
from launchers.plan.run_length import TOKENS, Data
from scripts.problem import Problem

MODELS = Path(__file__).with_name("models.yaml")
CHARACTERS_PER_TOKEN = 4.0
"""Rule of thumb for English text with a vocabulary of 100,000 or more; other languages and code
have fewer."""
SAMPLED_ROWS = 2000
"""Rows of a file whose length is measured."""


def find_model(model: str, config: Path | None = None) -> tuple[ModelConfig | None, str]:
    """Look up a model's sizes.

    Args:
        model: the recipe's source, such as ``hf://Qwen/Qwen3-8B@main``.
        config: a ``config.json`` that the caller gave; it takes precedence.

    Returns:
        The sizes and their origin; None and what to give when the sizes are not known.

    Raises:
        Problem: the file can't be read, or holds no sizes.
    """
    if config is not None:
        return read_config(config), str(config)
    try:
        parsed = sources.parse_source(model, "recipe.model")
    except LaunchError as error:
        raise Problem(f"{error.cause}; {error.remedy}") from None
    here = Path(parsed.repo) / "config.json"
    if parsed.hub == "file" and here.is_file():
        return read_config(here), str(here)
    name = known_model(parsed.name)
    if name:
        return model_config.parse_config(known_models()[name]), f"known as {name}"
    return None, f"the sizes of {parsed.name} are not known: give --model-config config.json"


def read_config(config: Path) -> ModelConfig:
    """Read a ``config.json``.

    Raises:
        Problem: it does not exist, is not JSON, or a size is missing.
    """
    try:
        return model_config.parse_config(json.loads(config.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, AttributeError) as error:
        raise Problem(f"{config} is not the config.json of a model: {error}") from None
    except LaunchError as error:
        raise Problem(f"{config}: {error.cause}; {error.remedy}") from None


def known_model(name: str) -> str:
    """Return the known model whose name begins a model's name; empty when there is none.

    Fine-tuned models carry the name of the model that they were trained from.

    >>> known_model("Qwen3-30B-A3B-Instruct-2507"), known_model("Qwen3-4B")
    ('Qwen3-30B-A3B', 'Qwen3-4B')
    >>> known_model("Qwen3-40B")
    ''
    """
    prefix = f"{name}-".lower()
    fitting = [known for known in known_models() if prefix.startswith(f"{known}-".lower())]
    return max(fitting, key=len, default="")


@cache
def known_models() -> Mapping[str, dict[str, Any]]:
    """Return the ``config.json`` of each known model, by its name."""
    models: dict[str, dict[str, Any]] = yaml.safe_load(MODELS.read_text(encoding="utf-8"))
    return models


def find_data(
    datasets: Sequence[str], *, pairs: int | None = None, tokens: float | None = None
) -> Data | None:
    """Measure a dataset.

    Args:
        datasets: the recipe's sources.
        pairs: number of pairs, if the caller gave it.
        tokens: mean tokens of a pair, if the caller gave it.

    Returns:
        None when the number is neither given nor countable in a file of this machine.

    Raises:
        Problem: a source or a file can't be parsed.
    """
    if pairs is not None:
        assumed = "" if tokens else " assumed (--tokens)"
        return _data(pairs, tokens or TOKENS, assumed)
    counts, lengths = 0, list[float]()
    for place, text in enumerate(datasets):
        try:
            parsed = sources.parse_source(text, f"recipe.dataset[{place}]")
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
    mean = sum(lengths) / max(1, len(lengths)) / CHARACTERS_PER_TOKEN or TOKENS
    guessed = "" if tokens else f" by {CHARACTERS_PER_TOKEN:.0f} characters a token"
    return _data(counts, tokens or mean, guessed)


def _data(pairs: int, tokens: float, why: str) -> Data:
    return Data(pairs=pairs, tokens=tokens, source=f"{pairs:,} pairs of {tokens:,.0f} tokens{why}")


def _lengths(file: Path) -> list[float]:
    try:
        rows = [json.loads(line) for line in islice(_lines(file), SAMPLED_ROWS)]
    except ValueError as error:
        raise Problem(f"{file} is not a JSON lines file: {error}") from None
    return [_characters(row) for row in rows]


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8-sig", errors="replace") as handle:
        yield from (line for line in handle if line.strip())


def _characters(row: object) -> float:
    """Return the characters of a preference row; the prompt counts with each answer.

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

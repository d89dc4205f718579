"""The check of the datasets' rows before the model is downloaded.

ms-swift drops a row that it cannot use and trains on the rest
(``swift/dataset/preprocessor/core.py``: ``batched_preprocess``), so a dataset without a single pair
fails only after the download, the conversion and the start of all GPUs. Rows that a plugin or a
column map may still change are not judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.recipe import PAIRED, Recipe
from launchers.exits import Exit, LaunchError

MAX_READ_BYTES = 64 * 1024**2
"""Part of a file that is read: about a second."""
_MAGIC = (b"PAR1", b"PARE")
"""First and last bytes of a parquet file (Apache Parquet, File Format; PARE: encrypted footer)."""
_ROW_MAKERS = ("columns", "external_plugins", "custom_dataset_info")
"""Flags by which a user's code or column map makes the rows."""
_ANSWERS = ("response", "answer", "output", "targets", "target", "completion", "content")
"""Columns that ms-swift takes for the answer (``ResponsePreprocessor``)."""
_TEXTS = "{chosen: response, rejected: rejected_response}"
_CONVERSATIONS = "{chosen: messages, rejected: rejected_messages}"
_PROMPTS = ("query", "prompt", "input", "instruction", "question", "problem")
"""Columns that ms-swift takes for the prompt, if it is the only one (``ResponsePreprocessor``)."""
_ASSISTANT = ("assistant", "gpt", "bot")
"""Roles of the answer in ``MessagesPreprocessor``."""
_PAIR = ("chosen", "rejected")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One dataset of the recipe, on the workspace."""

    key: str
    """Its key in the values, e.g. ``recipe.dataset[0]``."""
    path: Path
    sample: int | None = None


def check(recipe: Recipe, datasets: Sequence[Dataset], *, replicas: int | None) -> None:
    """Refuse datasets that make no training step.

    Args:
        recipe: the run's recipe.
        datasets: all of them; folders are not checked.
        replicas: data-parallel size; None when it is not known.

    Raises:
        LaunchError: DATA, naming the key, the file and the line.
    """
    counts = [_judge(recipe, dataset) for dataset in datasets]
    if replicas is not None and recipe.backend == "megatron" and None not in counts:
        _refuse_too_few(recipe, sum(c for c in counts if c is not None), replicas)


def steps(rows: int, *, micro: int, replicas: int, epochs: int, batch: int) -> int:
    """Return the number of iterations that Megatron-SWIFT makes of a dataset.

    Source: ``swift/megatron/arguments/megatron_args.py``: ``init_iters``.

    >>> steps(100, micro=1, replicas=8, epochs=1, batch=128)
    0
    >>> steps(100, micro=1, replicas=8, epochs=2, batch=64)
    3
    """
    step = micro * replicas
    return rows // step * step * epochs // batch


def _refuse_too_few(recipe: Recipe, rows: int, replicas: int) -> None:
    numbers = {
        name: recipe.arg(name, default)
        for name, default in (
            ("micro_batch_size", "1"),
            ("global_batch_size", "16"),
            ("num_train_epochs", "1"),
        )
    }
    is_given = "train_iters" in recipe.args or recipe.is_on("streaming")
    if is_given or not all(text.isascii() and text.isdecimal() for text in numbers.values()):
        return
    micro, batch, epochs = (max(1, int(text)) for text in numbers.values())
    if steps(rows, micro=micro, replicas=replicas, epochs=epochs, batch=batch) == 0:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: {rows} rows x num_train_epochs {epochs} do not fill one batch of "
            f"global_batch_size {batch} (micro_batch_size {micro} x {replicas} replicas a step)",
            "add rows or epochs, or lower recipe.args.global_batch_size",
            id="dataset-no-batch",
        )


def _judge(recipe: Recipe, dataset: Dataset) -> int | None:
    """Return an upper bound of a dataset's rows; None when it is not known.

    Raises:
        LaunchError: DATA when it has no row that can be trained on.
    """
    path = dataset.path
    if not path.is_file():
        return dataset.sample
    if path.stat().st_size == 0:
        raise _refusal("dataset-empty", dataset, "is empty", "use a file with rows")
    if path.suffix == ".parquet":
        _refuse_broken_parquet(dataset)
    if path.suffix not in (".json", ".jsonl"):
        return dataset.sample
    is_whole = path.stat().st_size <= MAX_READ_BYTES
    rows = list(_rows(dataset, is_whole=is_whole))
    if is_whole and not rows:
        raise _refusal("dataset-no-rows", dataset, "has no rows", "use a file with rows")
    is_paired = recipe.preference in PAIRED
    if rows and is_paired and not any(name in recipe.args for name in _ROW_MAKERS):
        _refuse_without_pairs(dataset, rows)
    if dataset.sample is not None:
        return dataset.sample
    return len(rows) if is_whole else None


def _refuse_broken_parquet(dataset: Dataset) -> None:
    with dataset.path.open("rb") as handle:
        first = handle.read(4)
        handle.seek(max(0, dataset.path.stat().st_size - 4))
        last = handle.read(4)
    if first not in _MAGIC or last not in _MAGIC:
        where = "beginning" if first not in _MAGIC else "end: it is truncated"
        raise _refusal(
            "dataset-parquet",
            dataset,
            f"is not a valid parquet file: PAR1 is missing at its {where}",
            "copy it again",
        )


def _rows(dataset: Dataset, *, is_whole: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of JSON lines, or of one JSON list, up to ``MAX_READ_BYTES``."""
    with dataset.path.open("rb") as handle:
        text = handle.read(MAX_READ_BYTES)
    if text.lstrip()[:1] == b"[":
        if is_whole:
            yield from _maps(dataset, [(1, _parse(dataset, text, 1))])
        return
    lines = text.split(b"\n")
    kept = lines if is_whole else lines[:-1]  # the last one is incomplete
    numbered = ((n, line) for n, line in enumerate(kept, 1) if line.strip())
    yield from _maps(dataset, ((n, _parse(dataset, line, n)) for n, line in numbered))


def _maps(dataset: Dataset, parsed: Iterable[tuple[int, Any]]) -> Iterator[Mapping[str, Any]]:
    for number, value in parsed:
        for row in value if isinstance(value, list) else [value]:
            if not isinstance(row, Mapping):
                raise _refusal(
                    "dataset-row",
                    dataset,
                    f"line {number}: the row is not a map",
                    "use one map per line",
                )
            yield row


def _parse(dataset: Dataset, text: bytes, number: int) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig" if number == 1 else "utf-8"))
    except ValueError as error:  # not JSON, or not UTF-8
        wrong = f"line {number} is not JSON: {error}"
        raise _refusal(
            "dataset-json", dataset, wrong, "use one JSON map per line, in UTF-8"
        ) from None


def _refuse_without_pairs(dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> None:
    if not any(name.startswith("rejected_") for row in rows for name in row):
        wrong = f"has no rejected answers; its columns are {', '.join(sorted(rows[0])) or '(none)'}"
        raise _refusal("dataset-no-pairs", dataset, wrong, pair_columns_remedy(rows[0]))
    if all(_is_same(row) for row in rows):
        wrong = f"rejected_response is missing or equals the chosen answer in all {len(rows)} rows"
        raise _refusal(
            "dataset-same-answers",
            dataset,
            wrong,
            "ms-swift drops such rows: give each row a different rejected answer",
        )


def _is_same(row: Mapping[str, Any]) -> bool:
    """Return whether ms-swift drops the row (``_check_rejected_response``)."""
    if any(name.startswith("rejected_") and name != "rejected_response" for name in row):
        return False
    messages, rejected = row.get("messages"), row.get("rejected_response")
    if rejected is None:
        return True
    if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
        return bool(rejected == messages[-1].get("content"))
    return any(rejected == row[name] for name in _ANSWERS if name in row)


def _refusal(id: str, dataset: Dataset, wrong: str, remedy: str) -> LaunchError:
    return LaunchError(Exit.DATA, f"{dataset.key}: {dataset.path} {wrong}", remedy, id=id)


def pair_columns_remedy(row: Mapping[str, Any]) -> str:
    """Return the remedy for rows without a ``rejected_`` column, by the form of one of them.

    Most datasets on hubs have one of the two forms of TRL. Tried with ``AutoPreprocessor`` and
    ``TemplateInputs`` of ms-swift 4.4.1: a map of columns keeps the prompt when it is a text next
    to texts, or part of the conversations. When ``chosen`` is a conversation that begins with the
    answer (TRL's explicit prompt), or ``prompt`` is a list, no map of columns works: the prompt is
    lost silently, or each row fails.

    >>> pair_columns_remedy({"prompt": "q", "chosen": "a", "rejected": "b"})
    'set recipe.args.columns: {chosen: response, rejected: rejected_response}'
    """
    if _is_texts(row):
        return f"set recipe.args.columns: {_TEXTS}"
    if all(_has_prompt(row.get(name)) for name in _PAIR):
        return f"set recipe.args.columns: {_CONVERSATIONS}"
    if all(isinstance(row.get(name), str | list) for name in _PAIR):
        return (
            "use a plugin that joins the prompt and each answer, which a map of columns cannot do: "
            "recipe.args.external_plugins; or use messages and rejected_response"
        )
    return (
        "use messages and rejected_response, or a plugin or a map of columns: "
        "recipe.args.external_plugins, recipe.args.columns"
    )


def _is_texts(row: Mapping[str, Any]) -> bool:
    """Return whether prompt and answers are texts; given two prompts, ms-swift uses neither."""
    prompts = [row[name] for name in _PROMPTS if name in row]
    return len(prompts) == 1 and all(
        isinstance(each, str) for each in (*prompts, *(row.get(name) for name in _PAIR))
    )


def _has_prompt(messages: object) -> bool:
    """Return whether a conversation begins with another role than the assistant's."""
    if not isinstance(messages, list) or not messages or not isinstance(messages[0], Mapping):
        return False
    return messages[0].get("role", messages[0].get("from")) not in _ASSISTANT

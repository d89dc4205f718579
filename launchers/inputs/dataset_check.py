"""What is wrong with a dataset, seen in its files before the model is fetched.

ms-swift drops a row that it cannot use and trains on the rest
(``swift/dataset/preprocessor/core.py``: ``batched_preprocess``), so a dataset without a single pair
fails only after the download, the conversion and the start of all GPUs. What a plugin or a column
map may still mend is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.recipe import Recipe
from launchers.exits import Exit, LaunchError
from launchers.inputs import dataset_advice

LIMIT = 64 * 1024**2
"""Bytes of a file that are read: a second or so."""
_MAGIC = (b"PAR1", b"PARE")
"""First and last bytes of a parquet file (Apache Parquet, File Format; PARE: encrypted footer)."""
_PAIRED = ("dpo", "rm", "cpo", "orpo", "simpo")
"""``rlhf_type`` of the losses that need a rejected answer (``swift/template/base.py``)."""
_MENDERS = ("columns", "external_plugins", "custom_dataset_info")
"""Flags by which a user's code or map makes the rows."""
_ANSWERS = ("response", "answer", "output", "targets", "target", "completion", "content")
"""Columns that ms-swift takes for the answer (``ResponsePreprocessor``)."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One dataset of the recipe, where it lies now."""

    key: str
    """Where it stands in the values, e.g. ``recipe.dataset[0]``."""
    path: Path
    sample: int | None = None


def check(recipe: Recipe, datasets: Sequence[Dataset], *, replicas: int | None) -> None:
    """Refuse datasets of which nothing could be trained.

    Args:
        recipe: the run's recipe.
        datasets: all of them; folders are left to ms-swift.
        replicas: data-parallel size; None where it is not known.

    Raises:
        LaunchError: DATA, naming the key, the file and the line.
    """
    counts = [_judge(recipe, dataset) for dataset in datasets]
    if replicas is not None and recipe.backend == "megatron" and None not in counts:
        _refuse_too_few(recipe, sum(c for c in counts if c is not None), replicas)


def steps(rows: int, *, micro: int, replicas: int, epochs: int, batch: int) -> int:
    """Return how many iterations Megatron-SWIFT makes of a dataset.

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
    is_told = "train_iters" in recipe.args or recipe.arg("streaming").lower() == "true"
    if is_told or not all(text.isascii() and text.isdecimal() for text in numbers.values()):
        return
    micro, batch, epochs = (max(1, int(text)) for text in numbers.values())
    if steps(rows, micro=micro, replicas=replicas, epochs=epochs, batch=batch) == 0:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: {rows} rows x num_train_epochs {epochs} make no batch of "
            f"global_batch_size {batch} (micro_batch_size {micro} x {replicas} replicas a step)",
            "add rows or epochs, or lower recipe.args.global_batch_size",
        )


def _judge(recipe: Recipe, dataset: Dataset) -> int | None:
    """Return an upper bound of a dataset's rows; None when it is not known.

    Raises:
        LaunchError: DATA when nothing can be trained from it.
    """
    path = dataset.path
    if not path.is_file():
        return dataset.sample
    if path.stat().st_size == 0:
        raise _refusal(dataset, "is empty", "write a file with rows")
    if path.suffix == ".parquet":
        _refuse_broken_parquet(dataset)
    if path.suffix not in (".json", ".jsonl"):
        return dataset.sample
    is_whole = path.stat().st_size <= LIMIT
    rows = list(_rows(dataset, is_whole=is_whole))
    if is_whole and not rows:
        raise _refusal(dataset, "has no rows", "write a file with rows")
    pairs = recipe.task == "rlhf" and recipe.arg("rlhf_type", "dpo") in _PAIRED
    if rows and pairs and not any(name in recipe.args for name in _MENDERS):
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
        where = "begin" if first not in _MAGIC else "end: it is cut"
        raise _refusal(dataset, f"is no parquet file: PAR1 is not at its {where}", "copy it again")


def _rows(dataset: Dataset, *, is_whole: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of JSON lines, or of one JSON list, as far as they are read."""
    with dataset.path.open("rb") as handle:
        text = handle.read(LIMIT)
    if text.lstrip()[:1] == b"[":
        if is_whole:
            yield from _maps(dataset, [(1, _parse(dataset, text, 1))])
        return
    lines = text.split(b"\n")
    kept = lines if is_whole else lines[:-1]  # the last one is cut
    numbered = ((n, line) for n, line in enumerate(kept, 1) if line.strip())
    yield from _maps(dataset, ((n, _parse(dataset, line, n)) for n, line in numbered))


def _maps(dataset: Dataset, parsed: Iterable[tuple[int, Any]]) -> Iterator[Mapping[str, Any]]:
    for number, value in parsed:
        for row in value if isinstance(value, list) else [value]:
            if not isinstance(row, Mapping):
                raise _refusal(dataset, f"line {number}: a row is no map", "write one map a line")
            yield row


def _parse(dataset: Dataset, text: bytes, number: int) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig" if number == 1 else "utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        wrong = f"line {number} is no JSON: {error}"
        raise _refusal(dataset, wrong, "write one JSON map a line, in UTF-8") from None


def _refuse_without_pairs(dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> None:
    if not any(name.startswith("rejected_") for row in rows for name in row):
        wrong = (
            f"has no rejected answers: its rows have {', '.join(sorted(rows[0])) or 'no columns'}"
        )
        raise _refusal(dataset, wrong, dataset_advice.remedy(rows[0]))
    if all(_is_same(row) for row in rows):
        wrong = f"rejected_response is missing or is the chosen answer in all {len(rows)} rows"
        raise _refusal(dataset, wrong, "write another rejected answer: ms-swift drops such rows")


def _is_same(row: Mapping[str, Any]) -> bool:
    """Tell whether ms-swift drops the row (``_check_rejected_response``)."""
    if any(name.startswith("rejected_") and name != "rejected_response" for name in row):
        return False
    messages, rejected = row.get("messages"), row.get("rejected_response")
    if rejected is None:
        return True
    if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
        return bool(rejected == messages[-1].get("content"))
    return any(rejected == row[name] for name in _ANSWERS if name in row)


def _refusal(dataset: Dataset, wrong: str, remedy: str) -> LaunchError:
    return LaunchError(Exit.DATA, f"{dataset.key}: {dataset.path} {wrong}", remedy)

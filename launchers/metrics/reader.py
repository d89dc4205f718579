"""Read ``metrics.jsonl``: the only parser of its lines, for a restart, an export and people.

A line is the row of an optimizer step or an evaluation. After a resume some steps are trained
again: their lines follow with the later attempt's number, and replace those of their step and of
later steps.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.system import lookup

Kind = TypeVar("Kind", Row, Evaluation)


def parse(text: str) -> Row | Evaluation | None:
    """Return what a line holds; None if it is torn, something else, or has invalid values.

    >>> first = Row(step=3, total=9, attempt=1, time=1.0, seconds=2.0, values={"loss": 0.7})
    >>> parse(rows.line(first)) == first
    True
    >>> parse('{"step": 3, "tot')
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return evaluations.of(document) or rows.of(document) if isinstance(document, dict) else None


def of_kind(lines: Iterable[str], kind: type[Kind]) -> Iterator[Kind]:
    """Yield all rows, or all evaluations, in the order of the lines."""
    return (found for text in lines if isinstance(found := parse(text), kind))


def append(kept: list[Kind], entry: Kind) -> None:
    """Add the file's next row or evaluation; it replaces those of its step and of later steps.

    >>> kept = [Row(step=n, total=9, attempt=1, time=0.0, seconds=1.0) for n in (1, 2, 3)]
    >>> append(kept, Row(step=2, total=9, attempt=2, time=0.0, seconds=1.0))
    >>> [(row.step, row.attempt) for row in kept]
    [(1, 1), (2, 2)]
    """
    while kept and kept[-1].step >= entry.step:
        kept.pop()
    kept.append(entry)


def newest(lines: Iterable[str], kind: type[Kind]) -> list[Kind]:
    """Return the newest row, or evaluation, of each step, in the order of steps."""
    kept: list[Kind] = []
    for entry in of_kind(lines, kind):
        append(kept, entry)
    return kept


def read(path: Path, kind: type[Kind]) -> list[Kind]:
    """Return the newest row, or evaluation, of each step of a file; an empty list without one.

    Raises:
        LaunchError: IO if the storage does not answer.
    """

    def ask() -> list[Kind]:
        with path.open(encoding="utf-8", errors="replace") as handle:
            return newest(handle, kind)

    return lookup.certain(ask, path) or []

"""Find the rows at which the attempts of a run begin and end, without reading all rows.

``metrics.jsonl`` may have a million of them. Each attempt appends its rows, so they are in the
order of (attempt, step), and a row is found by bisection over byte offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row

BLOCK_BYTES = 64 * 1024
"""Longer than any row."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """The rows of one attempt."""

    first: Row | None = None
    last: Row | None = None
    lost_steps: int = 0
    """Steps that the next attempt trained again."""
    lost_seconds: float = 0.0
    """From the last kept step to the last step."""


def read(handle: BinaryIO, size: int, resumes: Mapping[int, int | None]) -> dict[int, Span]:
    """Return the rows of each attempt.

    ``resumes``: the step that each attempt began from; None for one that never trained.
    """
    return {number: _span(handle, size, number, resumes) for number in resumes}


def _span(handle: BinaryIO, size: int, attempt: int, resumes: Mapping[int, int | None]) -> Span:
    begin = offset_of(handle, size, (attempt, -1))
    end = offset_of(handle, size, (attempt + 1, -1))
    first, last = _first(handle, begin, end), _last(handle, begin, end)
    next_from = next_resume(attempt, resumes)
    if first is None or last is None or next_from is None:
        return Span(first=first, last=last)
    kept = _last(handle, begin, offset_of(handle, size, (attempt, next_from + 1)))
    # Without a kept row the next attempt began from the same checkpoint: all is lost.
    since = kept.time if kept else first.time - first.seconds
    before = kept.step if kept else resumes[attempt] or 0
    return Span(
        first=first,
        last=last,
        lost_steps=max(0, last.step - before),
        lost_seconds=max(0.0, last.time - since),
    )


def next_resume(number: int, resumes: Mapping[int, int | None]) -> int | None:
    """Return the step from which the next attempt that trained began; None without one.

    >>> next_resume(1, {1: 0, 2: None, 3: 8}), next_resume(3, {3: 8})
    (8, None)
    """
    later = (resumes[each] for each in sorted(resumes) if each > number)
    return next((step for step in later if step is not None), None)


def offset_of(handle: BinaryIO, size: int, wanted: tuple[int, int]) -> int:
    """Return the offset from which all rows are at (attempt, step) ``wanted`` or after it."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        end, found = next_entry(handle, middle, size)
        if found is None or (found.attempt, found.step) >= wanted:
            high = middle
        else:
            low = end
    return low


def next_entry(handle: BinaryIO, offset: int, size: int) -> tuple[int, Row | Evaluation | None]:
    """Return the first row that begins at an offset or later, and the offset of its end.

    A torn line is skipped. The row is None at the end of the file.
    """
    handle.seek(max(0, offset - 1))
    if offset:
        handle.readline()
    while handle.tell() < size:
        if (found := reader.parse(handle.readline().decode(errors="replace"))) is not None:
            return handle.tell(), found
    return size, None


def _first(handle: BinaryIO, begin: int, end: int) -> Row | None:
    while begin < end:
        begin, found = next_entry(handle, begin, end)
        if isinstance(found, Row):
            return found
    return None


def _last(handle: BinaryIO, begin: int, end: int) -> Row | None:
    handle.seek(max(begin, end - BLOCK_BYTES))
    lines = handle.read(max(0, end - handle.tell())).decode(errors="replace").splitlines()
    return next(reader.of_kind(reversed(lines), Row), None)

"""Least squares over the errors of rows, and the errors on rows that were left out.

No row has a constant of its own: a handful of constants serve all rows, and each row is also
predicted by a fit without it (leave one out).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scripts.dev.calibrate.rows import Row

F = TypeVar("F")
Vector = list[float]
Errors = Callable[[Sequence[float]], Vector]
"""Constants to the error of each row."""

_STEPS = 25
_DAMPING = 1e-3
_NUDGE = 1e-5
_SETTLED = 1e-5
"""A step that reduces the sum by a smaller share is the last one."""


@dataclass(frozen=True)
class Bounds:
    """The range of a constant, and the start of the search."""

    low: float
    start: float
    high: float


def solve(errors: Errors, bounds: Sequence[Bounds]) -> Vector:
    """Return the constants with the least sum of squared errors (Gauss-Newton, damped)."""
    best = [b.start for b in bounds]
    seen = errors(best)
    damping = _DAMPING
    for _ in range(_STEPS):
        columns = _slope(errors, best, seen)
        square = [[_dot(a, b) for b in columns] for a in columns]
        for index, row in enumerate(square):
            row[index] = row[index] * (1 + damping) + 1e-12
        step = eliminate(square, [_dot(column, seen) for column in columns])
        moved = zip(best, step, bounds, strict=True)
        tried = [min(max(at - by, b.low), b.high) for at, by, b in moved]
        after = errors(tried)
        if _dot(after, after) < _dot(seen, seen):
            is_last = _dot(after, after) > (1 - _SETTLED) * _dot(seen, seen)
            best, seen, damping = tried, after, damping / 3
            if is_last:
                break
        else:
            damping *= 4
    return best


def left_out(
    rows: Sequence[Row], refit: Callable[[Sequence[Row]], F], error: Callable[[Row, F], float]
) -> list[float]:
    """Return each row's error by a fit of the rows of all other visits."""
    visits = {row.visit for row in rows}
    fits = {visit: refit([row for row in rows if row.visit != visit]) for visit in visits}
    return [error(row, fits[row.visit]) for row in rows]


def eliminate(square: Sequence[Sequence[float]], right: Sequence[float]) -> Vector:
    """Solve a small system of linear equations with positive pivots (Gauss-Jordan).

    >>> eliminate([[2.0, 1.0], [1.0, 3.0]], [5.0, 10.0])
    [1.0, 3.0]
    """
    rows = [[*row, value] for row, value in zip(square, right, strict=True)]
    for index in range(len(rows)):
        pivot = [value / rows[index][index] for value in rows[index]]
        rows = [
            pivot if number == index else _less(row, pivot, row[index])
            for number, row in enumerate(rows)
        ]
    return [row[-1] for row in rows]


def _less(row: Sequence[float], pivot: Sequence[float], times: float) -> Vector:
    return [a - times * b for a, b in zip(row, pivot, strict=True)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _slope(errors: Errors, at: Sequence[float], seen: Sequence[float]) -> list[Vector]:
    """Return the change of the errors with each constant."""
    columns = []
    for index, value in enumerate(at):
        nudge = _NUDGE * max(1.0, abs(value))
        after = errors([v + nudge * (i == index) for i, v in enumerate(at)])
        columns.append([(new - old) / nudge for new, old in zip(after, seen, strict=True)])
    return columns

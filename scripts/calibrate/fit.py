"""Least squares over relative errors, and the errors on rows that were left out.

No row has a constant of its own: a handful of constants serve all rows, and each row is also
predicted by a fit that never saw it (leave one out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Errors = Callable[[Vector], Vector]
"""Constants to the relative error of each row."""

_STEPS = 60
_DAMPING = 1e-3
_NUDGE = 1e-5


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a constant may be, and where the search starts."""

    low: float
    start: float
    high: float


def solve(errors: Errors, bounds: Sequence[Bounds]) -> Vector:
    """Return the constants with the least sum of squared errors (Gauss-Newton, damped)."""
    low = np.array([b.low for b in bounds])
    high = np.array([b.high for b in bounds])
    best = np.array([b.start for b in bounds])
    seen = errors(best)
    damping = _DAMPING
    for _ in range(_STEPS):
        slope = _slope(errors, best, seen)
        square = slope.T @ slope
        step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-12), slope.T @ seen)
        tried = np.clip(best - step, low, high)
        after = errors(tried)
        if float(after @ after) < float(seen @ seen):
            best, seen, damping = tried, after, damping / 3
        else:
            damping *= 4
    return best


def left_out(rows: int, fit: Callable[[list[int]], Callable[[int], float]]) -> list[float]:
    """Return each row's error by a fit of all the others.

    Args:
        rows: how many there are.
        fit: numbers of rows to a function from a row's number to its error.
    """
    return [fit([i for i in range(rows) if i != row])(row) for row in range(rows)]


def _slope(errors: Errors, at: Vector, seen: Vector) -> Vector:
    columns = []
    for index in range(len(at)):
        moved = at.copy()
        moved[index] += _NUDGE * max(1.0, abs(at[index]))
        columns.append((errors(moved) - seen) / (moved[index] - at[index]))
    return np.stack(columns, axis=1)

"""The memory predictor against its rows."""

import dataclasses
from collections.abc import Sequence
from itertools import starmap

from launchers.plan.memory import FIT, Fit, Memory
from scripts.dev.calibrate.fit import Bounds, Vector, left_out, solve
from scripts.dev.calibrate.rows import Row

BOUNDS = {
    "imbalance": Bounds(low=1.0, start=1.1, high=4.0),
    "context": Bounds(low=0.5, start=5.5, high=6.0),
    "staging": Bounds(low=0.0, start=5.0, high=10.0),
}
"""Constants of ``Fit`` and their plausible ranges."""
ROOM, BEYOND = 0.999, 100.0
"""Share of its GPU that a run which ran must be predicted in, so that it is not refused, and the
weight of what is predicted beyond."""


def error(row: Row, fit: Fit = FIT) -> float:
    """Return the relative error of a row with a reading."""
    return _error(row, row.memory(fit))


def _error(row: Row, predicted: Memory) -> float:
    assert row.gib is not None
    return row.reading(predicted) / row.gib - 1


def fitted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the constants are fitted on."""
    return [row for row in rows if row.fit and row.gib is not None]


def refit(rows: Sequence[Row]) -> Fit:
    """Return the constants that fit the rows best."""

    def errors(constants: Sequence[float]) -> Vector:
        fit = _fit(constants)
        found = [(row, row.memory(fit)) for row in rows]
        beyond = [max(0.0, memory.total / row.gpu.memory_gib - ROOM) for row, memory in found]
        return [*starmap(_error, found), *(BEYOND * each for each in beyond)]

    return _fit(solve(errors, list(BOUNDS.values())))


def cross_errors(rows: Sequence[Row]) -> list[float]:
    """Return each row's error by constants fitted without its visit, whose rows agree."""
    return left_out(rows, refit, error)


def unseen(rows: Sequence[Row]) -> list[float]:
    """Return the errors of rows measured here, by constants fitted on published rows alone."""
    fit = refit([row for row in rows if not row.ours])
    return [error(row, fit) for row in rows if row.ours]


def _fit(constants: Sequence[float]) -> Fit:
    return dataclasses.replace(FIT, **dict(zip(BOUNDS, constants, strict=True)))

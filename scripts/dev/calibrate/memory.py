"""The memory predictor against its rows."""

import dataclasses
from collections.abc import Callable, Sequence

from launchers.plan.memory import FIT, Fit
from scripts.dev.calibrate.fit import Bounds, Vector, left_out, solve
from scripts.dev.calibrate.rows import Row

BOUNDS = {
    "imbalance": Bounds(low=1.0, start=2.0, high=4.0),
    "context": Bounds(low=0.5, start=3.0, high=6.0),
    "staging": Bounds(low=0.0, start=4.0, high=10.0),
}
"""Constants of ``Fit`` and their plausible ranges."""


def error(row: Row, fit: Fit = FIT) -> float:
    """Return the relative error of a row with a reading."""
    assert row.gib is not None
    return row.reading(row.memory(fit)) / row.gib - 1


def fitted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the constants are fitted on."""
    return [row for row in rows if row.fit and row.gib is not None]


def refit(rows: Sequence[Row]) -> Fit:
    """Return the constants that fit the rows best."""

    def errors(constants: Sequence[float]) -> Vector:
        fit = _fit(constants)
        return [error(row, fit) for row in rows]

    return _fit(solve(errors, list(BOUNDS.values())))


def cross_errors(rows: Sequence[Row]) -> list[float]:
    """Return each row's error by constants fitted without it."""

    def without(kept: list[int]) -> Callable[[int], float]:
        fit = refit([rows[i] for i in kept])
        return lambda number: error(rows[number], fit)

    return left_out(range(len(rows)), without)


def unseen(rows: Sequence[Row]) -> list[float]:
    """Return the errors of rows measured here, by constants fitted on published rows alone."""
    fit = refit([row for row in rows if not row.ours])
    return [error(row, fit) for row in rows if row.ours]


def _fit(constants: Sequence[float]) -> Fit:
    return dataclasses.replace(FIT, **dict(zip(BOUNDS, constants, strict=True)))

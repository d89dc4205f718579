"""The speed predictor against its rows."""

import dataclasses
import math
from collections.abc import Sequence

from launchers.plan.step_time import PACE, Pace
from scripts.dev.calibrate.fit import Bounds, Vector, left_out, solve
from scripts.dev.calibrate.rows import Row

BOUNDS = {
    "passing": Bounds(low=0.5, start=3.0, high=20.0),
    "host": Bounds(low=1e-3, start=6e-3, high=2e-2),  # where no row is limited by it, it stays
    "idle": Bounds(low=1e-4, start=4e-3, high=2e-2),
    "host_adam": Bounds(low=1e9, start=3.5e9, high=1e10),
}
"""Constants of ``Pace`` and their plausible ranges."""


def error(row: Row, pace: Pace = PACE) -> float:
    """Return the logarithm of predicted over measured seconds."""
    assert row.seconds is not None
    return math.log(row.speed(pace).step_seconds / row.seconds)


def fitted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the constants are fitted on."""
    used = [row for row in rows if row.seconds is not None]
    return [row for row in used if (row.fit if row.fit_seconds is None else row.fit_seconds)]


def refit(rows: Sequence[Row]) -> Pace:
    """Return the constants that fit the rows best."""

    def errors(constants: Sequence[float]) -> Vector:
        pace = _pace(constants)
        return [error(row, pace) for row in rows]

    return _pace(solve(errors, [_logarithm(b) for b in BOUNDS.values()]))


def cross_errors(rows: Sequence[Row]) -> list[float]:
    """Return each row's error by constants fitted without its visit, whose rows agree."""
    return left_out(rows, refit, error)


def _logarithm(bounds: Bounds) -> Bounds:
    """Search in logarithms: the constants differ by twelve orders of magnitude."""
    low = math.log(max(bounds.low, 1e-6))
    return Bounds(low=low, start=math.log(bounds.start), high=math.log(bounds.high))


def _pace(constants: Sequence[float]) -> Pace:
    pairs = zip(BOUNDS, constants, strict=True)
    return dataclasses.replace(PACE, **{name: math.exp(value) for name, value in pairs})

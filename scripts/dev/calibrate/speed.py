"""The speed predictor against its rows."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from launchers.plan.step_time import PACE, Pace
from scripts.dev.calibrate.fit import Bounds, Vector, left_out, solve
from scripts.dev.calibrate.rows import Row

PASSING = Bounds(low=0.5, start=3.0, high=20.0)
"""Plausible range of ``Pace.passing``, which kernels of traced steps determine."""
BOUNDS = {
    "gap": Bounds(low=1e-5, start=5e-4, high=5e-3),
    "idle": Bounds(low=1e-4, start=4e-3, high=2e-2),
    "host_adam": Bounds(low=1e9, start=3.5e9, high=1e10),
}
"""Constants of ``Pace`` that seconds of steps determine, and their plausible ranges."""


def error(row: Row, pace: Pace = PACE) -> float:
    """Return the logarithm of predicted over measured seconds."""
    assert row.seconds is not None
    return math.log(row.speed(pace).step_seconds / row.seconds)


def kernels_error(row: Row, pace: Pace = PACE) -> float:
    """Return the logarithm of predicted over traced seconds of the kernels that compute."""
    assert row.kernels is not None
    busy = row.speed(dataclasses.replace(pace, gap=0.0, idle=0.0, host=0.0))
    return math.log((busy.compute_seconds + busy.optimizer_seconds) / row.kernels)


def fitted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose seconds the constants are fitted on."""
    used = [row for row in rows if row.seconds is not None]
    return [row for row in used if (row.fit if row.fit_seconds is None else row.fit_seconds)]


def traced(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with a traced step."""
    return [row for row in rows if row.kernels is not None]


def refit(rows: Sequence[Row]) -> Pace:
    """Return the constants that fit best: ``passing`` traced kernels, then the others steps."""
    of_kernels, of_steps = traced(rows), fitted(rows)
    pace = _fit(PACE, {"passing": PASSING}, kernels_error, of_kernels)
    return _fit(pace, BOUNDS, error, of_steps)


def cross_errors(rows: Sequence[Row]) -> list[float]:
    """Return the error of each fitted row by constants of other visits, whose rows agree."""
    used = fitted(rows)
    names = {row.name for row in used}
    rest = [row for row in traced(rows) if row.name not in names]
    return left_out([*used, *rest], refit, error)[: len(used)]


def _fit(
    pace: Pace, bounds: Mapping[str, Bounds], error: Callable[[Row, Pace], float], rows: list[Row]
) -> Pace:
    """Search in logarithms: the constants differ by twelve orders of magnitude."""

    def changed(constants: Sequence[float]) -> Pace:
        pairs = zip(bounds, map(math.exp, constants), strict=True)
        return dataclasses.replace(pace, **dict(pairs))

    def errors(constants: Sequence[float]) -> Vector:
        changed_pace = changed(constants)
        return [error(row, changed_pace) for row in rows]

    return changed(solve(errors, [_logarithm(each) for each in bounds.values()]))


def _logarithm(bounds: Bounds) -> Bounds:
    return Bounds(*map(math.log, dataclasses.astuple(bounds)))

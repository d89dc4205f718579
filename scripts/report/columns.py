"""Reduce a series to at most `COLUMNS` points, so that a page of a long run stays small.

A column of consecutive steps keeps its mean, minimum and maximum: no spike is lost, and the drawn
line is an average of all steps, not a sample of them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COLUMNS = 360
"""More would not be seen in a figure of 560 CSS pixels."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """A series over the steps; values that were not recorded or not finite are left out."""

    steps: tuple[float, ...] = ()
    """Of a column: the mean of its first and last step."""
    means: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    recorded: int = 0
    """Number of values before the reduction."""

    @property
    def is_reduced(self) -> bool:
        """Return whether a point stands for several steps."""
        return self.recorded > len(self.steps)

    @property
    def last(self) -> float | None:
        """Return the last point's mean."""
        return self.means[-1] if self.means else None


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum of finite numbers may not be one
        return math.fsum(value / len(values) for value in values)


def reduce(steps: Iterable[int], values: Iterable[float], columns: int = COLUMNS) -> Points:
    """Return a series in at most ``columns`` points.

    ``steps`` ascend; ``values`` are NaN where there is none.

    >>> reduce([1, 2, 3, 4], [1.0, 3.0, math.nan, 5.0], columns=2)
    Points(steps=(1.5, 4.0), means=(2.0, 5.0), lows=(1.0, 5.0), highs=(3.0, 5.0), recorded=3)
    """
    kept = [
        (step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)
    ]
    if not kept:
        return Points()
    size = max(1, -(-len(kept) // columns))
    groups = [kept[at : at + size] for at in range(0, len(kept), size)]
    return Points(
        steps=tuple((group[0][0] + group[-1][0]) / 2 for group in groups),
        means=tuple(_mean([value for _, value in group]) for group in groups),
        lows=tuple(min(value for _, value in group) for group in groups),
        highs=tuple(max(value for _, value in group) for group in groups),
        recorded=len(kept),
    )

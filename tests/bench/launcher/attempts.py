"""An attempt compared with the one before it: repeated steps, seconds of the recovery. Pure."""

from collections.abc import Sequence
from typing import Any

from launchers.metrics.rows import Row

SAME = 1e-5
"""Tolerance of the loss of the first step after a resume: one forward pass of the saved weights,
equal to the last digit in all runs so far."""


def repeated(rows: Sequence[Row], before: int, after: int) -> dict[str, Any]:
    """Compare the steps that two attempts have in common.

    Returns:
        ``first``, the first step of the later attempt; ``steps``, the common ones; ``exact``; and
        the differences of the losses: of the first common step, and the largest.
    """
    old = {row.step: row for row in rows if row.attempt == before}
    new = {row.step: row for row in rows if row.attempt == after}
    both = sorted(old.keys() & new.keys())
    apart = [abs(_loss(old[step]) - _loss(new[step])) for step in both]
    return {
        "first": min(new, default=0),
        "steps": both,
        "exact": all(old[step].values == new[step].values for step in both),
        "first_apart": apart[0] if apart else None,
        "apart": max(apart, default=None),
    }


def _loss(row: Row) -> float:
    value = row.values.get("loss")
    return float("nan") if value is None else value


def recovery(rows: Sequence[Row], killed: float, before: int, after: int) -> dict[str, Any]:
    """Return the recovery time after a rank was killed.

    ``killed`` is Unix time; attempt ``before`` lost the rank.

    Returns:
        ``last``, the last step before; ``first_step_s``, seconds to the end of the first step
        afterwards, a repeated one; ``new_step_s``, to the end of the first new one.
    """
    last = max((row.step for row in rows if row.attempt == before), default=0)
    later = [row for row in rows if row.attempt == after]
    return {
        "last": last,
        "first_step_s": _since(killed, later),
        "new_step_s": _since(killed, [row for row in later if row.step > last]),
    }


def _since(killed: float, rows: Sequence[Row]) -> float | None:
    return round(rows[0].time - killed, 1) if rows else None

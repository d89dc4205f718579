"""Figures of the soak from the rows of the runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchers.metrics.rows import Row


@dataclass(frozen=True, kw_only=True)
class Event:
    """One injected fault."""

    name: str
    time: float
    """Unix time of the injection."""


def latest(rows: Sequence[Row]) -> dict[int, Row]:
    """Return the row of the last attempt for each step."""
    return {row.step: row for row in sorted(rows, key=lambda row: row.attempt)}


def effective(rows: Sequence[Row], suspended_seconds: float = 0.0) -> float:
    """Return the effective training time: seconds of steps that count over seconds of the run.

    Args:
        rows: of all attempts.
        suspended_seconds: time in the queue after the first step, which does not count.
    """
    first, last = min(rows, key=lambda r: r.time), max(rows, key=lambda r: r.time)
    wall = last.time - first.time + first.seconds - suspended_seconds
    return sum(row.seconds for row in latest(rows).values()) / wall


def recovery(rows: Sequence[Row], event: Event, until: float) -> dict[str, Any]:
    """Return what one fault cost: seconds to the next new step, and steps trained again.

    Args:
        rows: of all attempts.
        event: the fault.
        until: Unix time of the next fault, or the end.
    """
    before = max((row.step for row in rows if row.time <= event.time), default=0)
    after = [row for row in rows if event.time < row.time <= until]
    new = [row.time for row in after if row.step > before]
    return {
        "fault": event.name,
        "next_step_s": round(min(new) - event.time, 1) if new else None,
        "steps_again": sum(row.step <= before for row in after),
        "attempts": sorted({row.attempt for row in after}),
    }


def differences(reference: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each step whose loss is not the reference's, to the last digit."""
    wanted = {step: row.values.get("loss") for step, row in latest(reference).items()}
    apart = [
        f"step {row.step} of attempt {row.attempt}: {row.values.get('loss')}, "
        f"undisturbed {wanted.get(row.step)}"
        for row in rows
        if row.values.get("loss") != wanted.get(row.step)
    ]
    missing = sorted(wanted.keys() - {row.step for row in rows})
    return apart + [f"step {step} is missing" for step in missing]


def summary(
    rows: Mapping[str, Sequence[Row]],
    reference: str,
    events: Mapping[str, Sequence[Event]],
    suspended: Mapping[str, float],
) -> dict[str, Any]:
    """Return the figures of all sides.

    Args:
        rows: by side.
        reference: the undisturbed side.
        events: by side.
        suspended: seconds in the queue by side.
    """
    return {
        side: {
            "steps": max((row.step for row in found), default=0),
            "attempts": len({row.attempt for row in found}),
            "last_loss": latest(found)[max(latest(found))].values.get("loss") if found else None,
            "effective": round(effective(found, suspended.get(side, 0.0)), 4) if found else None,
            "suspended_s": round(suspended.get(side, 0.0), 1),
            "apart": differences(rows[reference], found)[:20],
            "faults": _recoveries(found, events.get(side, ())),
        }
        for side, found in rows.items()
    }


def _recoveries(rows: Sequence[Row], events: Sequence[Event]) -> list[dict[str, Any]]:
    ends = [*(event.time for event in events[1:]), float("inf")][: len(events)]
    return [recovery(rows, event, end) for event, end in zip(events, ends, strict=True)]

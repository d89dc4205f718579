"""Figures of the soak from the rows of the runs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchers.metrics.rows import Row

SILENT_SECONDS = 30.0
"""Time without a step before the next fault, after which this one has ended the attempt."""


@dataclass(frozen=True, kw_only=True)
class Event:
    name: str
    time: float
    """Unix time of the injection."""


def latest(rows: Sequence[Row]) -> dict[int, Row]:
    """Return the row of the last attempt for each step."""
    return {row.step: row for row in sorted(rows, key=lambda row: row.attempt)}


def effective(rows: Sequence[Row], suspended_seconds: float = 0.0) -> float:
    """Return the effective training time: seconds of steps that count over seconds of the run.

    ``suspended_seconds``, in the queue after the first step, do not count.
    """
    first, last = min(rows, key=lambda r: r.time), max(rows, key=lambda r: r.time)
    wall = last.time - first.time + first.seconds - suspended_seconds
    return sum(row.seconds for row in latest(rows).values()) / wall


def recovery(rows: Sequence[Row], event: Event, until: float) -> dict[str, Any]:
    """Return what one fault cost: seconds to the next new step, and steps trained again.

    ``until`` is the Unix time of the next fault, or the end.
    """
    done = [row for row in rows if row.time <= event.time]
    before = max((row.step for row in done), default=0)
    new = next_new(rows, event.time, until)
    end = max(until, new.time) if new else until
    after = [row for row in rows if event.time < row.time <= end]
    return {
        "fault": event.name,
        "next_step_s": round(new.time - event.time, 1) if new else None,
        "steps_again": sum(row.step <= before for row in after),
        "attempts": sorted({row.attempt for row in after}),
    }


def next_new(rows: Sequence[Row], begin: float, until: float) -> Row | None:
    """Return the first step after a fault that no earlier attempt has done; None without one.

    If the fault ends the attempt it is a step of a later one, also after the next fault: some steps
    still end while a pod is deleted or the peers of a dead process wait.
    Times are Unix times.
    """
    attempt = max((row.attempt for row in rows if row.time <= begin), default=0)
    old = [row for row in rows if row.attempt <= attempt]
    last = max((row.time for row in old if row.time <= until), default=begin)
    later = [row for row in rows if row.attempt > attempt]
    begins = min((row.time for row in later), default=float("inf"))
    if later and (begins <= until or until - last > SILENT_SECONDS):
        done = max((row.step for row in old), default=0)
        new = [row for row in later if row.step > done]
    else:
        done = max((row.step for row in rows if row.time <= begin), default=0)
        new = [row for row in rows if begin < row.time <= until and row.step > done]
    return min(new, key=lambda row: row.time, default=None)


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

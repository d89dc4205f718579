"""Checks after a stop, in a save or in a step, and after the loss of a rank. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launchers.exits import Exit
from launchers.metrics.rows import Row
from tests.gpu.launcher import merged

SAME = 1e-5
"""Tolerance of the loss of the first step after a resume: one forward pass of the saved weights,
equal to the last digit in all runs so far."""
CLOSE = 5e-3
"""Tolerance of later repeated steps: from the third step on, runs of one recipe differed by up to
0.005 (NOTES.md, "All stages: results")."""


def repeated(rows: Sequence[Row], before: int, after: int) -> dict[str, Any]:
    """Compare the steps that two attempts have in common.

    Args:
        rows: all rows of ``metrics.jsonl``.
        before: number of the earlier attempt.
        after: number of the one that resumed.

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

    Args:
        rows: all rows of ``metrics.jsonl``.
        killed: Unix time of the kill.
        before: number of the attempt that lost the rank.
        after: number of the next one.

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


def complaints(record: Mapping[str, Any], total: int) -> list[str]:
    """Return a sentence for each failed check."""
    wanted = min(1, record.get("restarts_in_place", 0))
    problems = [*_of_stop(record.get("stop", {})), *_of_kill(record.get("kill", {}), wanted)]
    if record.get("error"):
        problems.append(str(record["error"]))
    elif record.get("exit") != 0 or record.get("last_step") != total:
        problems.append(
            f"the run ended with {record.get('exit')} after step {record.get('last_step')}, "
            f"not with 0 after {total}"
        )
    return problems + (merged.complaints(record["merged"]) if "merged" in record else [])


def _of_stop(seen: Mapping[str, Any]) -> list[str]:
    if not seen:
        return ["nothing was stopped"]
    problems = []
    if seen["exit"] != 143 or any(code != Exit.PREEMPTED for code in seen["pods"]):
        problems.append(f"SIGTERM ended the run with {seen['exit']}, its pods with {seen['pods']}")
    if seen["started"]:
        is_saved = seen["started"] == [f"checkpoint-{seen['newest']}"]
        where = f"in the save of {seen['started']}"
    else:
        is_saved = seen["newest"] >= seen["step"]
        where = f"after step {seen['step']}"
    if seen["unsealed"] or not is_saved:
        problems.append(
            f"SIGTERM {where} left {seen['unsealed']} incomplete, and "
            f"checkpoint {seen['newest']} is the newest complete one"
        )
    again = seen.get("repeated") or {"first": None, "steps": []}
    if again["first"] != seen["newest"] + 1 or again["steps"]:
        problems.append(
            f"after the stop the run continued with step {again['first']} and repeated the steps "
            f"{again['steps']}; it had saved step {seen['newest']}"
        )
    return problems


def _of_kill(seen: Mapping[str, Any], wanted: int) -> list[str]:
    """Check the loss of a rank; ``wanted`` is the number of restarts in place that follow."""
    if not seen:
        return ["no rank was killed"]
    problems = _of_repeat("after the kill", seen)
    if len(seen["in_place"]) != wanted:
        problems.append(f"{len(seen['in_place'])} restarts in place followed, not {wanted}")
    if seen["new_step_s"] is None:
        problems.append("no new step after the kill")
    return problems


def _of_repeat(when: str, seen: Mapping[str, Any]) -> list[str]:
    again = seen.get("repeated")
    if not again or not again["steps"]:
        return [f"{when} no step was repeated"]
    problems = []
    if again["first"] != seen["newest"] + 1:
        problems.append(
            f"{when} the run continued with step {again['first']}, and its newest complete "
            f"checkpoint was of step {seen['newest']}"
        )
    if not (again["first_apart"] <= SAME and again["apart"] <= CLOSE):
        problems.append(
            f"{when} losses differ by {again['first_apart']:g} in the first repeated step "
            f"(at most {SAME:g}) and by up to {again['apart']:g} (at most {CLOSE:g})"
        )
    return problems

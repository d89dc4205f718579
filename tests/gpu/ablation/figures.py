"""Figures of each variant from the rows of one start. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tests.gpu.ablation.plan import AGAIN, BASELINE, Segment
from tests.gpu.bench.figures import GIB, LN_2
from tests.gpu.bench.read import Ranks

CLOSE = 1e-3
"""Tolerance of a loss around ln 2: weights are constant, so it differs by rounding only."""
Row = dict[str, Any]


def rows(
    seen: Ranks,
    log: Sequence[Mapping[str, Any]],
    callback_rows: Sequence[Mapping[str, Any]],
    segments: Sequence[Segment],
) -> dict[str, Row]:
    """Return a row for each variant that has a measured step.

    Args:
        seen: the probe's rows.
        log: the trainer's.
        callback_rows: rows of the callbacks.
        segments: what ran in which step.
    """
    found: dict[str, Row] = {}
    logged = {int(str(row["iteration"]).partition("/")[0]): row for row in log}
    for segment in segments:
        if segment.role == "time" and segment.first + segment.warm_up <= seen.complete:
            found[segment.name] = {**_timed(seen, segment), **_logged(logged, segment)}
    for each in callback_rows:
        row = found.get(each["name"])
        if row is None:
            continue
        rest = {key: each[key] for key in each if key not in ("name", "role", "kind")}
        if each["kind"] == "refused":
            row["refused"] = each["why"]
        elif each["kind"] == "trace":
            row["trace"] = rest
        else:
            row.setdefault("profiles", []).append(rest)
    for row in found.values():
        _only_one_top(row.get("profiles", []))
    return found


def _timed(seen: Ranks, segment: Segment) -> Row:
    measured = range(segment.first + segment.warm_up, segment.last + 1)
    steps = [step for step in seen.steps() if step.number in measured]
    rates = [step.tokens / step.seconds / len(seen.rows) for step in steps]
    seconds = [step.seconds for step in steps]
    inside = [
        row
        for rank in seen.rows
        for row in rank[: seen.complete]
        if segment.first <= row["step"] <= segment.last
    ]
    return {
        "steps": len(steps),
        "seconds": {
            "median": round(statistics.median(seconds), 4),
            "min": round(min(seconds), 4),
            "max": round(max(seconds), 4),
        },
        "tokens_per_second_per_gpu": round(statistics.median(rates), 1),
        "allocated_gib": round(max(row["allocated"] for row in inside) / GIB, 2),
        "reserved_gib": round(max(row["reserved"] for row in inside) / GIB, 2),
    }


def _logged(log: Mapping[int, Mapping[str, Any]], segment: Segment) -> Row:
    """Return losses of all steps in the state, those of the warm-up too."""
    inside = [log[step] for step in range(segment.first, segment.last + 1) if step in log]
    losses = [float(row["loss"]) for row in inside]
    norms = [float(row["grad_norm"]) for row in inside if row.get("grad_norm") is not None]
    return {
        "loss": losses,
        "loss_off": round(max((abs(loss - LN_2) for loss in losses), default=0.0), 7),
        "grad_norm": round(statistics.median(norms), 4) if norms else None,
    }


def _only_one_top(profiles: list[Row]) -> None:
    """Keep the list of kernels of the first rank only; those of the others are nearly equal."""
    profiles.sort(key=lambda each: each["rank"])
    for each in profiles[1:]:
        each.pop("top", None)


def compare(found: Mapping[str, Row]) -> None:
    """Add ``times`` to each row: its tokens per second over the mean of the baselines of its start.

    >>> rows = {name: {"tokens_per_second_per_gpu": n} for name, n in (("baseline", 10), ("a", 15))}
    >>> compare(rows); rows["a"]["times"]
    1.5
    """
    bases = [found[name] for name in (BASELINE, AGAIN) if name in found]
    if not bases:
        return
    base = statistics.mean(each["tokens_per_second_per_gpu"] for each in bases)
    for row in found.values():
        row["times"] = round(row["tokens_per_second_per_gpu"] / base, 4)


def drift(found: Mapping[str, Row]) -> float | None:
    """Return the ratio of the last baseline to the first: the drift during the start."""
    if BASELINE not in found or AGAIN not in found:
        return None
    first, last = (float(found[n]["tokens_per_second_per_gpu"]) for n in (BASELINE, AGAIN))
    return round(last / first - 1, 4)


def wrong(found: Mapping[str, Row]) -> list[str]:
    """Return a sentence for each row whose measurement contradicts its name."""
    said = [
        f"{name}: a loss is off ln 2 by {row['loss_off']}, more than {CLOSE}"
        for name, row in found.items()
        if row.get("loss_off", 0) > CLOSE
    ]
    said += [f"{name}: {row['refused']}" for name, row in found.items() if "refused" in row]
    said += [f"{name}: {row['ended']}" for name, row in found.items() if "ended" in row]
    return said

"""The counts of the rows of an attempt, as its training processes write them. Pure but for reads.

``rows.jsonl`` has a line for each part of the rows: its counts, and the reasons of rows that were
dropped, are doubtful, or were replaced by another row. Processes append; the lines are summed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launchers.system import lookup

ROWS = "rows.jsonl"
"""File in an attempt's folder of a run whose rows are counted while they are read."""
SHOWN = 3
"""Rows that are named for each reason."""
EARLIER = "in an earlier attempt, whose log has the reason"


def document(lines: Iterable[str]) -> dict[str, Any]:
    """Return the counts of all processes: rows read and kept, and the reasons by count.

    ``lines``: of the file; an incomplete last one is left out.
    """
    counts, reasons = Counter[str](), dict[str, dict[str, Any]]()
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:  # it is being written
            continue
        counts.update(line["counts"])
        for why, more in line["reasons"].items():
            entry = reasons.setdefault(why, {**more, "count": 0, "rows": []})
            entry["count"] += more["count"]
            entry["rows"] = first([*entry["rows"], *more["rows"]])
    ordered = sorted(reasons.items(), key=lambda each: -each[1]["count"])
    return {"read": 0, "kept": 0, **counts, "reasons": dict(ordered)}


def first(rows: list[list[Any]]) -> list[list[Any]]:
    """Return the first rows of a dataset: a part that is held out has been shuffled."""
    return sorted(rows, key=lambda each: (each[0], each[1] or 0))[:SHOWN]


def summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts as fields of ``packing.json`` and ``progress.json``."""

    def of(key: bool | None) -> dict[str, int]:
        return {w: e["count"] for w, e in found["reasons"].items() if e["dropped"] is key}

    drawn = {"rows_drawn": found["drawn"], "rows_replaced": of(None)} if found.get("drawn") else {}
    counts = {"rows_read": found["read"], "rows_kept": found["kept"]}
    return {**counts, "rows_dropped": of(True), "pairs_doubtful": of(False), **drawn}


def read(path: Path) -> dict[str, Any]:
    """Return the counts of an attempt whose rows are counted while they are read; or empty.

    Rows that were read and not yet tokenised count as neither: those read are those kept and
    dropped. Rows of a mapped dataset that no process has seen were dropped by an earlier attempt.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    text = lookup.text(path)
    if text is None:
        return {}
    found = document(text.splitlines())
    kept = found["kept"] if found.get("tried") else found.get("passed", 0)
    gone = sum(each["count"] for each in found["reasons"].values() if each["dropped"])
    if found.get("mapped") and (more := found["read"] - kept - gone) > 0:
        found["reasons"][EARLIER] = {"count": more, "dropped": True, "rows": []}
        gone += more
    return {**found, "kept": kept, "read": kept + gone}


def so_far(attempt: Path) -> dict[str, Any]:
    """Return ``read`` as fields of ``packing.json``; empty where rows are not counted so."""
    found = read(attempt / ROWS)
    return {"rows_so_far": "while rank 0 reads them", **summary(found)} if found else {}

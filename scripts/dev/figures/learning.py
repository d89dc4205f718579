"""Tables of the proof of learning: the results ``learning-*``."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.dev import results
from scripts.dev.figures.markdown import table

Record = Mapping[str, Any]
NONE = "None yet."
OURS, UPSTREAM = "ours", "upstream"
COLUMNS = ("figure", "ours", "upstream", "difference, 90 % interval", "bound", "result")
OTHERS = {
    "kernels": "upstream with other kernels",
    "equal-weights": "equal weights of pairs",
    "control": "control",
}
"""Sides that are reported in addition to the test, and the headings of their columns."""


def newest_first(folder: Path = results.FOLDER) -> list[Record]:
    """Return the results, the newest first."""
    found = results.read(folder, "learning-").values()
    return sorted(found, key=lambda record: str(record["when"]), reverse=True)


def summary(records: Sequence[Record]) -> str:
    """Return a table for each result."""
    return "\n\n".join(map(_summary, records)) or NONE


def _summary(record: Record) -> str:
    """Return a line for each compared figure: means over the seeds, the test, and other sides."""
    tests, versions = record["judged"]["tests"], record["versions"]
    others = {title: tests[side] for side, title in OTHERS.items() if tests.get(side)}
    stack = f"ms-swift {versions['ms-swift']}, Transformer Engine {versions['transformer-engine']}"
    gpus = f"{len(record['gpus'])} x {record['gpus'][0].split(',')[0]}"
    lines = [_line(name, test, list(others.values())) for name, test in tests[OURS].items()]
    return f"{record['when'][:10]}, {gpus}, {stack}:\n\n{table((*COLUMNS, *others), lines)}"


def _line(name: str, test: Record, others: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    means = [f"{statistics.mean(test[side]):.4g}" for side in (OURS, UPSTREAM)]
    span = f"{test['mean']:+.4f}, {test['low']:+.4f} to {test['high']:+.4f}"
    said = "equivalent" if test["equivalent"] else "different"
    controls = (_interval(other.get(name)) for other in others)
    return (name, *means, span, f"{test['bound']:g}", said, *controls)


def _interval(test: Record | None) -> str:
    return "" if test is None or "low" not in test else f"{test['low']:+.4f} to {test['high']:+.4f}"

"""Files of a variant's ranks: log-probabilities of each pair, log, rows of the experts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.gpu.bench import read as bench_read

Pair = list[float]
"""Tokens of chosen and rejected, then their sums under the policy, then under the reference."""
DIGITS = 6
"""Tolerance of a sum of some thousand nats: slightly above float32 rounding."""


def run(folder: Path) -> dict[str, Any]:
    """Return the results in a run's folder; partial if it ended early."""
    found, apart = pairs(folder)
    rows = [row for path in sorted(folder.glob("probe-*.jsonl")) for row in bench_read.lines(path)]
    by_step = {row["step"]: row for row in rows if "loss" in row}
    counts = [json.loads(path.read_text()) for path in sorted(folder.glob("experts-*.json"))]
    return {
        "log": [by_step[step] for step in sorted(by_step)],
        "experts": {name: sum(each[name] for each in counts) for name in counts[0]}
        if counts
        else {},
        "ranks_apart": apart,
        "pairs": found,
    }


def pairs(folder: Path) -> tuple[dict[str, Pair], float]:
    """Return the pairs of the first step by id, and the largest difference between ranks."""
    found: dict[str, Pair] = {}
    apart = 0.0
    for path in sorted(folder.glob("logps-*.jsonl")):
        for row in bench_read.lines(path):
            if row["step"] != 1:
                continue
            columns = [*row["tokens"], *row["policy"], *row["reference"]]
            for name, *values in zip(row["names"], *columns, strict=True):
                rounded = [round(value, DIGITS) for value in values]
                known = found.setdefault(name, rounded)
                apart = max([apart, *(abs(a - b) for a, b in zip(known, rounded, strict=True))])
    return found, apart

"""Figures of a pass over the reference from its rounds (``plugins/swift_pass.py``)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.speed import read

EPOCH = 60_000
"""Pairs of the epoch over which start and rate are combined."""


def of(folder: Path, note: Mapping[str, Any], rate: float | None) -> dict[str, Any] | None:
    """Return the figures of a run's pass; None if it was not measured, or has no steady round.

    ``rate``: tokens per second and GPU of training alone; None without measured steps.
    """
    ranks = [read.lines(path) for path in sorted(folder.glob("pass-*.jsonl"))]
    found = figures(ranks) if ranks and all(_is_whole(rows) for rows in ranks) else None
    if found is None:
        return None
    seen = {
        name: [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-pass-*.json"))]
        for name in ("kernels", "waits")
    }
    per_pair = note["tokens"] / note["pairs"]
    return found | epoch(found, per_pair * EPOCH, ranks[0][0]["world"], rate) | seen


def _is_whole(rows: Sequence[Mapping[str, Any]]) -> bool:
    return bool(rows) and rows[-1]["part"] == "end"


def figures(ranks: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any] | None:
    """Return seconds of the start, of each round and of the end, and the steady rate.

    Steady are the rounds after the first that were not profiled and have as many micro-batches; the
    start's seconds include what the first round took longer.

    >>> rows = [{"part": "start", "seconds": 2.0, "world": 1}]
    >>> each = {"part": "round", "microbatches": 16, "tokens": 100, "data_seconds": 0.0}
    >>> each |= {"world": 1, "traced": False, "reserved": 2**30}
    >>> rows += [{**each, "seconds": s} for s in (4.0, 1.0, 1.0)]
    >>> found = figures([[*rows, {"part": "end", "seconds": 0.5, "world": 1}]])
    >>> found["start_s"], found["tokens_per_second_per_gpu"], found["end_s"]
    (5.0, 100.0, 0.5)
    """
    slowest = [max(row["seconds"] for row in rows) for rows in zip(*ranks, strict=True)]
    rounds = [rows for rows in zip(*ranks, strict=True) if rows[0]["part"] == "round"]
    tokens = [sum(row["tokens"] for row in rows) for rows in rounds]
    seconds, world = slowest[1:-1], ranks[0][0]["world"]
    whole = rounds[0][0]["microbatches"]
    steady = [
        at
        for at, (row, *_) in enumerate(rounds)
        if at and not row["traced"] and row["microbatches"] == whole
    ]
    if not steady:
        return None
    took = sum(seconds[at] for at in steady)
    rate = sum(tokens[at] for at in steady) / took / world
    return {
        "start_s": round(slowest[0] + seconds[0] - tokens[0] / rate / world, 3),
        "end_s": slowest[-1],
        "tokens_per_second_per_gpu": round(rate, 1),
        "data_share": round(sum(rounds[at][0]["data_seconds"] for at in steady) / took, 4),
        "reserved_gib": round(max(row["reserved"] for row in rounds[-1]) / 2**30, 2),
        "seconds": [slowest[0], *seconds, slowest[-1]],
        "tokens": tokens,
        "steady": steady,
    }


def epoch(
    found: Mapping[str, Any], tokens: float, world: int, rate: float | None
) -> dict[str, Any]:
    """Return an epoch with its pass relative to training alone.

    >>> epoch({"start_s": 4.0, "end_s": 1.0, "tokens_per_second_per_gpu": 100.0}, 10_000, 2, 25.0)
    {'pass_s': 55.0, 'train_s': 200.0, 'ratio': 0.7843, 'steady_ratio': 0.8}
    """
    if not rate:
        return {}
    steady, train = tokens / found["tokens_per_second_per_gpu"] / world, tokens / rate / world
    whole = found["start_s"] + steady + found["end_s"]
    return {
        "pass_s": round(whole, 1),
        "train_s": round(train, 1),
        "ratio": round(train / (train + whole), 4),
        "steady_ratio": round(train / (train + steady), 4),
    }


def table(runs: Mapping[str, Mapping[str, Any]], most: int = 25) -> str:
    """Return the figures of each measured pass, kernels and waits of rank 0."""
    lines = []
    for name, run in runs.items():
        found = dict(run.get("pass_rounds") or {})
        kernels, waits = found.pop("kernels", []), found.pop("waits", [])
        lines += [f"{name}: pass {json.dumps(found)}"] if found else []
        for part in kernels[:1]:
            top = part.pop("top", ())
            lines.append(f"kernels {json.dumps(part)}")
            lines += [f"{ms:10.2f} ms in {n:6d} of {kernel}" for kernel, ms, n in top[:most]]
            part["top"] = top
        for part in waits[:1]:
            lines.append(f"host, {part['microbatches']} micro-batches")
            lines += [f"{ms:10.2f} ms in {n:6d} of {call}" for call, ms, n in part["waits"]]
    return "\n".join(lines)

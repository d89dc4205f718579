"""Files of a run: the rows of its ranks, the trainer's log and the product's own metrics."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.progress.training import PACKING


@dataclass(frozen=True, kw_only=True)
class Step:
    number: int
    seconds: float
    """Seconds from the end of the previous step to its end, on the slowest rank."""
    tokens: int
    squares: int
    sequences: int
    balance: float
    """Ratio of the largest replica's tokens to the mean."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    who: list[dict[str, Any]]
    """First row of each rank's file."""
    rows: list[list[dict[str, Any]]]
    """Steps of each rank."""

    @property
    def complete(self) -> int:
        world = self.who[0]["world"] if self.who else 1
        return min(map(len, self.rows)) if len(self.rows) == world else 0

    def steps(self) -> list[Step]:
        """Return the steps that all ranks finished; one rank per replica counts tokens."""
        firsts = [n for n, who in enumerate(self.who) if not who["tp"] + who["pp"] + who["cp"]]
        return [
            _step([rows[at] for rows in self.rows], [self.rows[n][at] for n in firsts])
            for at in range(self.complete)
        ]

    def peak(self, name: str) -> int:
        """Return the largest ``allocated`` or ``reserved`` of all ranks, in bytes."""
        return max((row[name] for rows in self.rows for row in rows), default=0)


def _step(everyone: Sequence[dict[str, Any]], replicas: Sequence[dict[str, Any]]) -> Step:
    tokens = [row["tokens"] for row in replicas]
    return Step(
        number=everyone[0]["step"],
        seconds=max(row["seconds"] for row in everyone),
        tokens=sum(tokens),
        squares=sum(row["squares"] for row in replicas),
        sequences=sum(row["sequences"] for row in replicas),
        balance=max(tokens) * len(tokens) / max(1, sum(tokens)),
    )


def ranks(folder: Path) -> Ranks:
    files = [lines(path) for path in sorted(folder.glob("rank-*.jsonl"))]
    whole = [file for file in files if file]
    return Ranks(who=[file[0] for file in whole], rows=[file[1:] for file in whole])


def lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file; empty if there is none; skip an incomplete last line."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in whole if line.startswith("{")]


def logged(folder: Path) -> list[dict[str, Any]]:
    """Return the training steps of the trainer's log."""
    found = sorted(folder.rglob("logging.jsonl"))
    return [row for path in found for row in lines(path) if "loss" in row]


def left_out(folder: Path) -> dict[str, float]:
    """Return ``left_out``, the share of the data's tokens that are not computed; {} if unknown."""
    packings = [json.loads(path.read_text()) for path in folder.rglob(PACKING)]
    return {"left_out": packings[0]["shared"]} if packings else {}


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Convert rows to columns: a quarter of the bytes.

    >>> columns([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}

"""Readings of a node's host memory during an attempt, in ``attempts/<n>/host-<rank>.jsonl``.

Rank 0 also notes there when a checkpoint became complete. Each line is written at once: a pod that
runs out of memory leaves its last readings.
"""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.storage import checkpoint
from launchers.system import host_memory
from launchers.system.threads import repeat

INTERVAL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One reading."""

    time: float
    """Unix time."""
    used: int
    """Bytes."""
    limit: int | None
    files: int | None = None
    """Files on a tmpfs in ``used``."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The readings of one rank in one attempt."""

    rank: int
    samples: tuple[Sample, ...] = ()
    complete: dict[int, float] = field(default_factory=dict)
    """Unix time at which the checkpoint of a step was first seen complete."""

    def fullest(self, begin: float = 0.0, end: float = float("inf")) -> Sample | None:
        """Return the reading with the most bytes in use between two times; None without one."""
        within = (each for each in self.samples if begin <= each.time <= end)
        return max(within, key=lambda each: each.used, default=None)


@contextmanager
def sampling(folder: Path, rank: int, checkpoints: Path) -> Iterator[None]:
    """Write a reading every ``INTERVAL_SECONDS`` while the block runs.

    Rank 0 also notes complete checkpoints.
    """
    path, seen = folder / f"host-{rank}.jsonl", set(_complete(checkpoints))

    def work() -> None:
        lines: list[dict[str, Any]] = []
        if (found := host_memory.read()) is not None:
            lines.append({"time": time.time(), **asdict(found)})
        if rank == 0:
            new = set(_complete(checkpoints)) - seen
            lines += [{"time": time.time(), "complete": step} for step in sorted(new)]
            seen.update(new)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as handle:
                handle.writelines(json.dumps(line) + "\n" for line in lines)
        except OSError as error:
            logs.warning("host memory not written", path=path, cause=error)

    try:
        with repeat(work, INTERVAL_SECONDS, "host-memory"):
            yield
    finally:
        work()


def _complete(checkpoints: Path) -> Iterator[int]:
    """Yield the steps of the checkpoints that have their manifest, without reading it."""
    for manifest in checkpoints.glob(f"checkpoint-*/{checkpoint.COMPLETE}"):
        step = manifest.parent.name.removeprefix("checkpoint-")
        if step.isdecimal():
            yield int(step)


def read(attempts: Path) -> list[Samples]:
    """Return the readings of all ranks of all attempts; torn lines are skipped."""
    return [_parsed(path) for path in sorted(attempts.glob("*/host-*.jsonl"))]


def _parsed(path: Path) -> Samples:
    rank = int(path.stem.removeprefix("host-"))
    found = list(_objects(path.read_text(encoding="utf-8").splitlines()))
    return Samples(
        rank=rank,
        samples=tuple(Sample(**each) for each in found if "used" in each),
        complete={each["complete"]: each["time"] for each in found if "complete" in each},
    )


def _objects(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found

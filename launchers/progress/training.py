"""What ``progress.json`` says of training, from the rows of ``metrics.jsonl``."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from launchers import logs
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.progress.progress import Progress
from launchers.system.threads import regularly

EVERY = 10.0
"""Seconds between two looks at the file."""
RECENT = 20
"""Steps whose median tells how long the rest takes."""


@dataclass(kw_only=True)
class Tail:
    """Reads what was added to a file, by whole lines: a torn last one is read when it is whole."""

    path: Path
    offset: int = 0

    def lines(self) -> list[str]:
        """Return the new lines; none where there is no file yet."""
        try:
            with self.path.open("rb") as handle:
                if handle.seek(0, 2) < self.offset:  # another file under the same name
                    self.offset = 0
                handle.seek(self.offset)
                found = handle.read()
        except OSError:  # NFS may be late, or the volume away for a moment
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode(errors="replace").splitlines()


@dataclass(kw_only=True)
class Timeline:
    """The steps that the run's present state consists of, whichever attempt trained them."""

    last: Row | None = None
    steps: list[tuple[int, float]] = field(default_factory=list)
    """Step and seconds, as ``metrics.append`` keeps rows: whole ones would take too much."""

    def add(self, lines: list[str]) -> None:
        """Add the file's next lines."""
        for text in lines:
            if (row := rows.parse(text)) is not None:
                while self.steps and self.steps[-1][0] >= row.step:
                    self.steps.pop()
                self.steps.append((row.step, row.seconds))
                self.last = row

    def summary(self, now: float, first_started: float) -> dict[str, Any]:
        """Return what is told of training; nothing before the first step.

        Goodput is the time of the steps that count over the time since the run's first start:
        what was lost to start, waiting, saving and steps that a restart trained again is not in it.

        Args:
            now: Unix time.
            first_started: Unix time of the first attempt's start.
        """
        if self.last is None:
            return {}
        last, waited = self.last, self.last.data_seconds
        usual = statistics.median(seconds for _, seconds in self.steps[-RECENT:])
        productive = sum(seconds for _, seconds in self.steps)
        return {
            "step": last.step,
            "total": last.total,
            "attempt": last.attempt,
            "eta_seconds": round((last.total - last.step) * usual, 1),
            "step_seconds": round(usual, 4),
            "loss": last.values.get("loss"),
            "margin": last.values.get("rewards/margins"),
            "accuracy": last.values.get("rewards/accuracies"),
            "tokens_per_second_per_gpu": last.tokens_per_second_per_gpu,
            "mfu": last.mfu,
            "data_share": round(waited / last.seconds, 6) if waited is not None else None,
            "goodput": round(productive / max(now - first_started, productive), 6),
        }


@contextmanager
def telling(progress: Progress, path: Path, *, every: float = EVERY) -> Iterator[None]:
    """Keep ``progress.training`` up to date while the block trains, and once at its end."""
    tail, timeline = Tail(path=path), Timeline()

    def tell() -> None:
        timeline.add(tail.lines())
        found = timeline.summary(time(), progress.first_started)
        if found and found != progress.training:
            progress.training = found
            progress.write()

    def work() -> None:
        try:
            tell()
        except Exception as error:  # neither a full disk nor odd rows may end a run
            logs.warning("progress of training not written", cause=repr(error))

    try:
        with regularly(work, every, "telling") as teller:
            yield
    finally:
        if not teller.is_alive():
            work()

"""Update the training state in ``progress.json`` from the rows of ``metrics.jsonl``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from launchers import logs
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import BY_LOSS, Evaluation, Measure
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.progress import row_counts
from launchers.progress.progress import Progress, quietly
from launchers.system.atomic_file import read_object, replace
from launchers.system.threads import repeat

INTERVAL_SECONDS = 10.0
"""Seconds between two readings of the file."""
MEASURED = ("reserved_gib", "fill", "expert_load", "expert_load_worst", "grad_norm")
"""Further numbers of the last step's row, under their names in ``metrics/rows.py``."""
PACKING = "packing.json"
"""File in an attempt's folder: the counts of its rows (``training/tokens``) and its packs."""
RECENT_STEPS = 20
"""Number of last steps whose median duration gives the remaining time."""


@dataclass(kw_only=True)
class Tail:
    """Reads the lines added to a file; an incomplete last line is read once it is complete."""

    path: Path
    offset: int = 0

    def lines(self) -> list[str]:
        """Return the new lines; an empty list if there is no file yet."""
        try:
            with self.path.open("rb") as handle:
                if handle.seek(0, 2) < self.offset:  # another file under the same name
                    self.offset = 0
                handle.seek(self.offset)
                found = handle.read()
        except OSError:  # NFS may lag, or the volume be unavailable for a moment
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode(errors="replace").splitlines()


@dataclass(kw_only=True)
class Timeline:
    """The steps of the run's current state, of all attempts."""

    last: Row | None = None
    steps: list[tuple[int, float]] = field(default_factory=list)
    """Step and seconds, kept as ``reader.append`` keeps rows; whole rows would need more memory."""
    evaluations: list[Evaluation] = field(default_factory=list)
    measure: Measure = BY_LOSS
    """The number by which evaluations are compared."""

    def add(self, lines: list[str]) -> None:
        """Add the file's next lines."""
        for text in lines:
            match reader.parse(text):
                case Evaluation() as evaluation:
                    reader.append(self.evaluations, evaluation)
                case Row() as row:
                    while self.steps and self.steps[-1][0] >= row.step:
                        self.steps.pop()
                    self.steps.append((row.step, row.seconds))
                    self.last = row

    def summary(self, now: float, first_started: float) -> dict[str, Any]:
        """Return the training state; empty before the first step.

        Goodput is the duration of the steps that count over the time since the run's first start:
        starting, waiting, saving and steps that a restart trained again do not count.

        Args:
            now: Unix time.
            first_started: start of the first attempt, as a Unix time.
        """
        if self.last is None:
            return {}
        last, waited = self.last, self.last.data_seconds
        usual = statistics.median(seconds for _, seconds in self.steps[-RECENT_STEPS:])
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
            **{name: getattr(last, name) for name in MEASURED},
            "goodput": round(productive / max(now - first_started, productive), 6),
            "held_out": evaluations.summary(self.evaluations, self.measure) or None,
        }


def rows_of(attempt: Path) -> dict[str, Any]:
    """Return the counts of an attempt's rows; empty where there are none yet.

    Args:
        attempt: its folder.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    found = {**read_object(attempt / PACKING), **row_counts.so_far(attempt)}
    names = ("rows_read", "rows_kept", "rows_dropped", "pairs_doubtful", "rows_not_counted")
    own = (*names, "rows_so_far", "rows_drawn", "rows_replaced")
    return {name: found[name] for name in own if name in found}


def note(attempt: Path, counts: Mapping[str, Any]) -> None:
    """Write counts of rows, or why there are none, to an attempt's ``packing.json``.

    Raises:
        OSError: the file cannot be written.
    """
    known = read_object(attempt / PACKING)
    if known != (document := {**known, **counts}):
        replace(attempt / PACKING, json.dumps(document, indent=1) + "\n")


def log_rows(training: Mapping[str, Any]) -> None:
    """Log how many rows a run has trained on, and why others were dropped.

    Args:
        training: the training state in ``progress.json``.
    """
    if found := training.get("rows"):
        logs.info("rows", **found)


def log_held_out(training: Mapping[str, Any]) -> None:
    """Log a run's first, last and best evaluation, one line each; nothing without any.

    Args:
        training: the training state in ``progress.json``.
    """
    held_out = training.get("held_out") or {}
    for name in ("first", "last", "best"):
        if found := held_out.get(name):
            by = {"by": held_out["by"]} if name == "best" else {}
            logs.info(f"held out, {name} evaluation", **found, **by)


@contextmanager
def summarising(
    progress: Progress,
    path: Path,
    *,
    measure: Measure = BY_LOSS,
    every: float = INTERVAL_SECONDS,
) -> Iterator[None]:
    """Keep ``progress.training`` up to date while the block trains, and once at its end.

    Args:
        progress: the run's.
        path: its ``metrics.jsonl``.
        measure: the number by which evaluations are compared.
        every: seconds between two readings of the file.
    """
    tail, timeline = Tail(path=path), Timeline(measure=measure)

    def record() -> None:
        timeline.add(tail.lines())
        found = timeline.summary(time(), progress.first_started)
        attempt = path.parent / "attempts" / str(found.get("attempt"))
        if found and (counts := rows_of(attempt)):
            found["rows"] = counts
            if "rows_so_far" in counts:
                quietly(lambda: note(attempt, counts))
        if found and found != progress.training:
            progress.training = found
            quietly(progress.write)

    def work() -> None:
        try:
            record()
        except Exception as error:  # neither a full disk nor malformed rows may end a run
            logs.warning("progress of training not written", cause=repr(error))

    try:
        with repeat(work, every, "progress") as thread:
            yield
    finally:
        if not thread.is_alive():
            work()

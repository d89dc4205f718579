"""Update the training state in ``progress.json`` from the rows of ``metrics.jsonl``."""

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
from launchers.progress.prometheus import GAUGES
from launchers.system.atomic_file import read_object, replace
from launchers.system.threads import repeat

INTERVAL_SECONDS = 10.0
"""Seconds between two readings of the file."""
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
    lost_seconds: float = 0.0
    """Of steps that a later attempt has trained again."""
    evaluation_seconds: float = 0.0
    kwh: float | None = None
    """Of all GPUs, in all steps and between them."""
    measure: Measure = BY_LOSS
    """The number by which evaluations are compared."""

    def add(self, lines: list[str]) -> None:
        """Add the file's next lines."""
        for text in lines:
            match reader.parse(text):
                case Evaluation() as evaluation:
                    reader.append(self.evaluations, evaluation)
                    self.evaluation_seconds += evaluation.seconds
                case Row() as row:
                    while self.steps and self.steps[-1][0] >= row.step:
                        self.lost_seconds += self.steps.pop()[1]
                    if row.watts is not None:
                        each = row.watts * (row.seconds + row.other_seconds) / 3.6e6
                        self.kwh = (self.kwh or 0.0) + each
                    self.steps.append((row.step, row.seconds))
                    self.last = row

    def summary(self, now: float, first_started: float) -> dict[str, Any]:
        """Return the training state; empty before the first step.

        Goodput is the duration of the steps that count over the time since the run's first start:
        starting, waiting, saving and steps that a restart trained again do not count.
        Both are Unix times.
        """
        if self.last is None:
            return {}
        last, waited = self.last, self.last.data_seconds
        usual = statistics.median(seconds for _, seconds in self.steps[-RECENT_STEPS:])
        productive = sum(seconds for _, seconds in self.steps)
        return {
            # a gauge with the name of a column of metrics/rows.py has its value
            **{name: getattr(last, name) for name in GAUGES if hasattr(last, name)},
            "eta_seconds": round((last.total - last.step) * usual, 1),
            "step_seconds": round(usual, 4),
            "loss": last.values.get("loss"),
            "margin": last.values.get("rewards/margins"),
            "accuracy": last.values.get("rewards/accuracies"),
            "data_share": round(waited / last.seconds, 6) if waited is not None else None,
            "goodput": round(productive / max(now - first_started, productive), 6),
            "trained_seconds": round(productive, 3),
            "lost_seconds": round(self.lost_seconds, 3),
            "evaluation_seconds": round(self.evaluation_seconds, 3),
            "kwh": self.kwh,
            "held_out": evaluations.summary(self.evaluations, self.measure) or None,
        }


def rows_of(attempt: Path) -> dict[str, Any]:
    """Return the counts of an attempt's rows; empty where there are none yet.

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
    """Log how many rows a run has trained on, and why others were dropped."""
    if found := training.get("rows"):
        logs.info("rows", **found)


def log_held_out(training: Mapping[str, Any]) -> None:
    """Log a run's first, last and best evaluation, one line each; nothing without any."""
    held_out = training.get("held_out") or {}
    for name in ("first", "last", "best"):
        if found := held_out.get(name):
            by = {"by": held_out["by"]} if name == "best" else {}
            logs.info(f"held out, {name} evaluation", **found, **by)


@contextmanager
def summarising(
    progress: Progress, path: Path, *, measure: Measure = BY_LOSS, every: float = INTERVAL_SECONDS
) -> Iterator[None]:
    """Keep ``progress.training`` up to date while the block trains, and once at its end.

    The file is read every ``every`` seconds.
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

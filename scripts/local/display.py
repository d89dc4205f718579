"""The terminal output of a local run: every event of its pods, and a step every few seconds."""

import re
import threading
import time
from pathlib import Path

from rich.console import Console

from launchers.metrics.trainer_log import parse_step
from launchers.progress.training import Tail

EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\w+) (?:rank=\d+ )?(.*)")
LIMIT = 100
"""Characters of an event that are shown; the pod's log has all of it."""
STEP_SECONDS = 5.0
"""Seconds between two printed steps."""


def event(line: str) -> str | None:
    """Return the event in a line of a launcher; None for lines of its child processes.

    >>> event("2026-11-21T02:03:04Z INFO rank=0 clone done seconds=2")
    'clone done seconds=2'
    >>> event("2026-11-21T02:03:04Z ERROR run ended code=78")
    'ERROR run ended code=78'
    """
    match = EVENT.match(line)
    if match is None:
        return None
    return match[2] if match[1] == "INFO" else f"{match[1]} {match[2]}"


class Display:
    """Prints lines, also for a pipe or a file."""

    def __init__(self, console: Console, trainer_log: Path, *, verbose: bool = False) -> None:
        """Show events on `console` and steps of `trainer_log`; `verbose` shows all output."""
        self.console = console
        begin = trainer_log.stat().st_size if trainer_log.exists() else 0
        self._log = Tail(path=trainer_log, offset=begin)  # after the steps of earlier attempts
        self._verbose = verbose
        self._next = 0.0
        self._lock = threading.Lock()

    def line(self, pod: str, text: str) -> None:
        """Show a line that a pod printed; called from the thread that reads its output."""
        shown = text if self._verbose else event(text)
        if shown is not None:
            self.note(f"{pod}: {shown if self._verbose else shown[:LIMIT]}")

    def ended(self, pod: str, code: int) -> None:
        """Show that a pod ended."""
        if code:
            self.note(f"{pod}: exit code {code}")

    def note(self, text: str) -> None:
        """Show a message of the runner."""
        with self._lock:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tick(self) -> None:
        """Show the newest step; called several times a second."""
        if time.monotonic() < self._next:
            return
        steps = map(parse_step, reversed(self._log.lines()))
        if step := next((each for each in steps if each and "loss" in each.row), None):
            self._next = time.monotonic() + STEP_SECONDS
            self.note(f"step {step.number}/{step.total} loss={step.row['loss']:.4f}")

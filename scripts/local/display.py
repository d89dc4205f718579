"""The terminal output of a local run: a live table and progress bar, or plain lines."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from scripts.local.trainer_log import Follower

EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\w+) (?:rank=\d+ )?(.*)")
LIMIT = 100
"""Characters of an event that are shown; the pod's log has all of it."""


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
    """Plain lines, for a pipe or a file: every event, and a step every few seconds."""

    every = 5.0
    """Seconds between two printed steps."""

    def __init__(self, console: Console, trainer_log: Path, *, verbose: bool = False) -> None:
        """Show events on `console` and steps of `trainer_log`; `verbose` shows all output."""
        self.console = console
        self._steps = Follower(trainer_log)
        self._verbose = verbose
        self._next = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> Display:
        """Start the display."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the display."""

    def begin(self, pods: Sequence[str]) -> None:
        """Start an attempt with these pods."""

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
        step = self._steps.newest()
        if step:
            self._next = time.monotonic() + self.every
            self.note(f"step {step.number}/{step.total} loss={step.row['loss']:.4f}")


class LiveDisplay(Display):
    """On a terminal: a table of the pods and a progress bar of the steps, updated in place."""

    every = 0.25

    def __enter__(self) -> Display:
        """Start the live region of the terminal."""
        self._events: dict[str, str] = {}
        self._bar = Progress(
            TextColumn("train"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._live = Live(get_renderable=self._render, console=self.console, refresh_per_second=8)
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop updates and leave the last state on the screen."""
        self._live.__exit__(None, None, None)

    def begin(self, pods: Sequence[str]) -> None:
        """Start an attempt with these pods."""
        self._events = dict.fromkeys(pods, "starting")

    def line(self, pod: str, text: str) -> None:
        """Show the newest event of a pod as its row."""
        if self._verbose:
            super().line(pod, text)
        shown = event(text)
        if shown is not None:
            self._events[pod] = shown

    def ended(self, pod: str, code: int) -> None:
        """Show that a pod ended."""
        self._events[pod] = f"exit code {code}: {self._events.get(pod, '')}" if code else "done"

    def tick(self) -> None:
        """Update the progress bar."""
        step = self._steps.newest()
        if step:
            if not self._bar.task_ids:
                self._bar.add_task("train", total=step.total, loss=0.0)
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=step.number, total=step.total, loss=step.row["loss"])

    def _render(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for pod, text in list(self._events.items()):
            table.add_row(pod, text)
        return Group(table, self._bar) if self._bar.task_ids else table


def make_display(console: Console, trainer_log: Path, *, verbose: bool = False) -> Display:
    """Return a live display for a terminal, plain lines otherwise."""
    kind = LiveDisplay if console.is_terminal else Display
    return kind(console, trainer_log, verbose=verbose)

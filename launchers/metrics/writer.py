"""Writes rows in a thread of its own: a slow file system must not hold up a step."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from launchers import logs
from launchers.metrics.rows import Row, line

T = TypeVar("T")
END = 30.0
"""Seconds that the last rows may take when training ends."""


class Writer(Generic[T]):
    """Turns what a step left into its row and appends it, in the order of the steps.

    What goes wrong here is logged once and never ends training.
    """

    def __init__(
        self, path: Path, finish: Callable[[T], Row], also: Callable[[Row], None] | None = None
    ) -> None:
        """Start the thread.

        Args:
            path: of the file; rows are added to what an earlier attempt wrote.
            finish: arithmetic that is left for the thread.
            also: told each row after it was written.
        """
        self._path, self._finish, self._also = path, finish, also
        self._todo: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Hand over a step; returns at once."""
        self._todo.put(item)

    def close(self) -> None:
        """Write what was handed over, and end the thread."""
        self._todo.put(None)
        self._thread.join(timeout=END)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                row = self._finish(item)
                append(self._path, line(row))
                if self._also is not None:
                    self._also(row)
            except Exception as error:
                if not self._failed:
                    logs.warning("metrics not written", path=self._path, cause=repr(error))
                self._failed = True


def append(path: Path, text: str) -> None:
    """Add one line in one write; the end of a line that a kill has torn is made first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, ("\n" * torn + text + "\n").encode())
    finally:
        os.close(handle)


def path(env: Mapping[str, str], otherwise: str) -> Path:
    """Return where the rows go: the run's folder, or the trainer's outside of a launcher."""
    return Path(env.get("TRAINING_HOME") or otherwise) / "metrics.jsonl"


def attempt(env: Mapping[str, str]) -> int:
    """Return the number of this start of the gang; 1 outside of a launcher.

    >>> attempt({"TRAINING_ATTEMPT": "/w/runs/r/attempts/3"}), attempt({})
    (3, 1)
    """
    name = Path(env.get("TRAINING_ATTEMPT", "")).name
    return int(name) if name.isdecimal() else 1

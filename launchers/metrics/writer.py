"""Write rows in a separate thread, so that a slow file system does not delay a step."""

import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from launchers import logs
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics.rows import Row, line

T = TypeVar("T")
CLOSE_TIMEOUT_SECONDS = 30.0
"""Time that the end of training waits for the last rows."""


class Writer(Generic[T]):
    """Computes the row of each step and appends it, in the order of the steps and evaluations.

    The first error is logged; no error ends training.
    """

    def __init__(
        self, path: Path, finish: Callable[[T], Row], also: Callable[[Row], None] | None = None
    ) -> None:
        """Start the thread.

        ``finish`` computes a row in the thread, which calls ``also`` once it is written.
        """
        self._path, self._finish, self._also = path, finish, also
        self._todo: queue.SimpleQueue[T | Evaluation | None] = queue.SimpleQueue()
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
        self._thread.start()

    def put(self, item: T | Evaluation) -> None:
        """Queue a step or an evaluation; returns immediately."""
        self._todo.put(item)

    def close(self) -> None:
        """Write the queued steps, and end the thread."""
        self._todo.put(None)
        self._thread.join(timeout=CLOSE_TIMEOUT_SECONDS)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                self._append(item)
            except Exception as error:
                if not self._failed:
                    logs.warning("metrics not written", path=self._path, cause=repr(error))
                self._failed = True

    def _append(self, item: T | Evaluation) -> None:
        if isinstance(item, Evaluation):
            append(self._path, evaluations.line(item))
            return
        row = self._finish(item)
        append(self._path, line(row))
        if self._also is not None:
            self._also(row)


def append(path: Path, text: str) -> None:
    """Append a line with one write; end a line first that an interruption has torn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, ("\n" * torn + text + "\n").encode())
    finally:
        os.close(handle)


def path(env: Mapping[str, str], otherwise: str) -> Path:
    """Return the path of the file: in the run's folder, or in ``otherwise`` without a launcher."""
    return Path(env.get("DPO_RUN_FOLDER") or otherwise) / "metrics.jsonl"


def attempt(env: Mapping[str, str]) -> int:
    """Return the number of this attempt; 1 without a launcher.

    >>> attempt({"DPO_ATTEMPT_FOLDER": "/w/runs/r/attempts/3"}), attempt({})
    (3, 1)
    """
    name = Path(env.get("DPO_ATTEMPT_FOLDER", "")).name
    return int(name) if name.isdecimal() else 1

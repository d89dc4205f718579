"""The launcher's child: one process group, whose every process ends with it.

The wrappers of ms-swift swallow SIGTERM and leave torchrun as an orphan
(``swift/cli/main.py``), and torchrun's workers lead sessions of their own, so the launcher
owns torchrun itself and adopts what torchrun leaves behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

_PR_SET_CHILD_SUBREAPER = 36
"""``prctl`` option of linux/prctl.h: orphans below us become our children."""


class Stopped(BaseException):
    """SIGTERM or SIGINT reached the launcher; no ``Exception``, so that no stage eats it."""

    def __init__(self, number: int) -> None:
        """Keep which signal it was."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def raise_on_signals(last_words: Callable[[Stopped], None]) -> None:
    """Turn SIGTERM and SIGINT into ``Stopped``: as PID 1 the kernel would ignore them.

    A second signal ends this process at once: no grace, and no process left.

    Args:
        last_words: called at the first signal, as the second leaves no time.
    """

    def end_now(number: int, _: FrameType | None) -> None:
        kill_descendants()
        os._exit(128 + number)

    def stop(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, end_now)
        stopped = Stopped(number)
        last_words(stopped)
        raise stopped

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants (PID 1 of a pod is it already)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Child:
    """A running command; its output goes to stdout and to a file."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], output: Path) -> None:
        """Start it in a session of its own."""
        self._output = output.open("ab")
        self._process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._copier = threading.Thread(
            target=_copy, args=(self._process.stdout.fileno(), self._output), daemon=True
        )
        self._copier.start()

    def wait(self, wake: threading.Event, pause: float = 0.2) -> int | None:
        """Wait for its end; return its code, or None when ``wake`` is set first."""
        while True:
            code = self._process.poll()
            if code is not None:
                return code
            if wake.is_set():
                return None
            wake.wait(pause)

    def poll(self) -> int | None:
        """Return its code if it has ended."""
        return self._process.poll()

    def end(self, grace: float) -> None:
        """End it and all its descendants: SIGTERM, after ``grace`` seconds SIGKILL."""
        if self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        kill_descendants()
        self._process.wait()
        self._copier.join(timeout=5)
        with contextlib.suppress(OSError):  # what a full disk did not take
            self._output.close()


def _copy(source: int, target: IO[bytes]) -> None:
    """Copy to stdout and the file as it comes (progress bars end no line), to the last writer.

    A target that can't be written (a full disk) is left out from then on: a pipe that nobody
    reads would hang the training.
    """
    targets = [sys.stdout.buffer, target]
    while chunk := os.read(source, 1 << 16):
        for each in list(targets):
            try:
                each.write(chunk)
                each.flush()
            except (OSError, ValueError):
                targets.remove(each)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def kill_descendants(patience: float = 5.0) -> None:
    """Kill and reap whatever is left below this process; nothing to do where /proc is missing."""
    stop = time.monotonic() + patience
    while time.monotonic() < stop:
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def descendants(root: int) -> list[int]:
    """List the processes below ``root``, by ``/proc/<pid>/stat``; zombies count."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # the second field, the name, may hold blanks and brackets: cut after its last bracket
            fields = entry.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, queue = [], [root]
    while queue:
        queue += children.get(queue[0], [])
        found += children.get(queue.pop(0), [])
    return found

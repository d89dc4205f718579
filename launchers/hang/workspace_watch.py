"""End a launcher that waits for a workspace which does not answer, once training has ended.

It then reads logs and writes records, as does a launcher that ends before training. A call into a
mount whose server is away blocks in the kernel, where no signal is handled, while the liveness file
is renewed: the pod would keep its GPUs until a person deletes it. Therefore a thread touches the
run's folder from then on, which asks the server, and ends the launcher when the answer takes too
long. A slow workspace answers in time.

While training runs the limits of the hang watchdog apply (``silence.py``).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.system.remedies import MOUNT_REMEDY
from launchers.system.threads import in_thread

PROBES = 10
"""Per time limit."""


class WorkspaceWatch:
    """The watch of one launcher, at rest until training has ended."""

    def __init__(self, folder: Path, limit: float, end: Callable[[LaunchError], None]) -> None:
        """Prepare it.

        ``end`` ends this process after ``limit`` seconds without an answer of the workspace.
        """
        self._folder, self._limit, self._end = folder, limit, end
        self._error: LaunchError | None = None
        self._is_active = threading.Event()
        self._thread: threading.Thread | None = None

    def pause(self) -> None:
        """Note that training runs."""
        self._error = None
        self._is_active.clear()

    def resume(self) -> None:
        """Note that training has ended: only the launcher uses the workspace."""
        self._is_active.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="workspace", daemon=True)
            self._thread.start()

    def note(self, error: LaunchError) -> None:
        """Note why this rank ends, before it writes that to the workspace, also before training."""
        self._error = error
        self.resume()

    def _work(self) -> None:
        while self._is_active.wait():
            try:
                in_thread(self._touch, self._limit)
            except TimeoutError:
                if self._is_active.is_set():
                    self._end(self._error or self._stalled())
                    return
            time.sleep(self._limit / PROBES)

    def _touch(self) -> None:
        with contextlib.suppress(OSError):  # an error is an answer, too
            os.utime(self._folder)

    def _stalled(self) -> LaunchError:
        return LaunchError(
            Exit.IO,
            f"{self._folder} has given no answer for {self._limit:g} s after training had ended",
            MOUNT_REMEDY,
            id="workspace-stalled",
        )


_watch: WorkspaceWatch | None = None


def install(watch: WorkspaceWatch) -> None:
    """Make it the watch of this process, as signal handlers are."""
    global _watch
    _watch = watch


def pause() -> None:
    """See ``WorkspaceWatch.pause``."""
    if _watch is not None:
        _watch.pause()


def resume() -> None:
    """See ``WorkspaceWatch.resume``."""
    if _watch is not None:
        _watch.resume()


def note(error: LaunchError) -> None:
    """See ``WorkspaceWatch.note``."""
    if _watch is not None:
        _watch.note(error)

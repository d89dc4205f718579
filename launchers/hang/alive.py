"""Heartbeat of the launcher itself: a file whose time the pod's liveness probe reads.

A launcher that is frozen (SIGSTOP of pid 1) handles no SIGTERM, and its peers cannot replace it:
once they have ended, the pod is deleted with its whole grace period. The probe sends it SIGCONT,
before its peers miss it, and fails. Where that does not help, because C code keeps Python's lock,
it sends SIGHUP, which ends the process without Python.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launchers import logs
from launchers.system.threads import repeat

BEAT_SECONDS = 3.0
"""The chart's probe counts the launcher as frozen once the file is older than five beats."""


@contextmanager
def beating(path: Path | None) -> Iterator[None]:
    """Renew the file's time inside this context; without a path, or on an error, do nothing.

    The probe passes while there is no file.
    """
    try:
        if path is not None:
            path.touch()
    except OSError as error:
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path = None
    if path is None:
        yield
        return
    _exit_on_hangup()
    with repeat(partial(_touch, path), BEAT_SECONDS, "alive"):
        yield


def _exit_on_hangup() -> None:
    """Let the kernel call ``_exit`` on SIGHUP, with the number of the signal, 1.

    A handler of Python's would need its lock, and without one the kernel ignores the signal for the
    first process of a container. 1 is also the exit code of a failure that a restart may cure.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        libc.signal(int(signal.SIGHUP), ctypes.cast(libc._exit, ctypes.c_void_p))


def _touch(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:  # the probe must not end the pod for a full disk
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path.unlink(missing_ok=True)

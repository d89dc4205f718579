"""Heartbeat of the launcher itself: a file with the node's uptime, which the pod's probe reads.

A step of the wall clock would let a healthy launcher look frozen; nobody sets the uptime.

A launcher that is frozen (SIGSTOP of pid 1) handles no SIGTERM, and its peers cannot replace it:
once they have ended, the pod is deleted with its whole grace period. The probe sends it SIGCONT,
before its peers miss it, and fails. Where that does not help, because C code keeps Python's lock,
it sends SIGHUP, which ends the process without Python.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launchers import logs
from launchers.system.threads import repeat

BEAT_SECONDS = 3.0
"""The chart's probe counts the launcher as frozen once the last beat is older than five of them."""
UPTIME = Path("/proc/uptime")


@contextmanager
def beating(path: Path | None) -> Iterator[None]:
    """Write the uptime inside this context; without a path, or on an error, do nothing.

    The probe passes while there is no file.
    """
    try:
        if path is not None:
            _write(path)
    except OSError as error:
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path = None
    if path is None:
        yield
        return
    _exit_on_hangup()
    with repeat(partial(_renew, path), BEAT_SECONDS, "alive"):
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


def _write(path: Path) -> None:
    """Write in place, in one call: the probe never reads a part, and a longer text never ends."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.pwrite(file, UPTIME.read_bytes().split()[0] + b"\n", 0)
    finally:
        os.close(file)


def _renew(path: Path) -> None:
    try:
        _write(path)
    except OSError as error:  # the probe must not end the pod for a full disk
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path.unlink(missing_ok=True)

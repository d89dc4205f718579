"""A slow or stalled workspace, and a clock that is set, for the fault matrix.

Python loads this module at its start. ``FAULT_MOUNT`` names a file with the seconds that each call
into the workspace takes; while the file is missing they take no longer than usual. A call that is
stalled blocks until the process ends, as one into a hard NFS mount does. ``FAULT_CLOCK`` names a
file with the seconds by which the wall clock was set.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS = ("open", "os.")
"""Events of the interpreter's audit hook before system calls with a path."""


def _delay(place: str, switch: str, path: object) -> None:
    if not isinstance(path, str | bytes | os.PathLike) or not os.fsdecode(path).startswith(place):
        return
    try:
        handle = _open(switch, os.O_RDONLY)
    except OSError:
        return
    seconds = float(os.read(handle, 64) or 0)
    os.close(handle)
    time.sleep(seconds)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags)


def _wrapped(act: Callable[..., Any], place: str, switch: str) -> Callable[..., Any]:
    def call(path: Any, *args: Any, **named: Any) -> Any:
        _delay(place, switch, path)
        return act(path, *args, **named)

    return call


def install(place: str, switch: str) -> None:
    """Delay calls with a path below ``place``."""

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event.startswith(CALLS) and args:
            _delay(place, switch, args[0])

    sys.addaudithook(hook)
    os.stat = _wrapped(os.stat, place, switch)  # without an event of its own
    os.lstat = _wrapped(os.lstat, place, switch)


def set_clock(switch: str) -> None:
    """Let Python's wall clock, and the times that it gives to files, follow the file."""
    now, touch = time.time, os.utime

    def shifted() -> float:
        try:
            handle = _open(switch, os.O_RDONLY)
        except OSError:
            return now()
        shift = float(os.read(handle, 64) or 0)
        os.close(handle)
        return now() + shift

    def utime(path: Any, times: Any = None, **named: Any) -> None:
        if times is None and "ns" not in named:
            times = (shifted(), shifted())
        touch(path, times, **named)

    time.time, time.time_ns = shifted, lambda: int(shifted() * 1e9)
    os.utime = utime


if "FAULT_CLOCK" in os.environ:
    set_clock(os.environ["FAULT_CLOCK"])
if "FAULT_MOUNT" in os.environ:
    install(os.environ["DPO_WORKSPACE"], os.environ["FAULT_MOUNT"])

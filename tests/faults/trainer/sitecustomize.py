"""A slow or stalled workspace for the launchers and the trainer of the fault matrix.

Python loads this module at its start. ``FAULT_MOUNT`` names a file with the seconds that each call
into the workspace takes; while the file is missing they take no longer than usual. A call that is
stalled blocks until the process ends, as one into a hard NFS mount does.
"""

from __future__ import annotations

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


if "FAULT_MOUNT" in os.environ:
    install(os.environ["DPO_WORKSPACE"], os.environ["FAULT_MOUNT"])

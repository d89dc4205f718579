"""End of a training process by an uncaught exception."""

import os
import sys
import traceback
from contextlib import suppress
from typing import Any

_EVENT = "sys.excepthook"
"""Audit event that Python raises for an uncaught exception before it calls the hook."""
_STDERR = 2


class _State:
    """State of the audit hook, which cannot be removed: it acts while ``ends`` is set."""

    is_added = False
    ends = False


def install() -> None:
    """Let an uncaught exception end this process when its traceback is printed, with exit code 1.

    Python's own end first joins threads and data loader workers and destroys communicators. On
    H200 that takes 9 to 11 s (tests/bench/results, matrix-2xh200: rank-exception less
    rank-killed), in which no launcher knows of the failure.

    An audit hook does it, before any ``sys.excepthook``: one that a user's plugin has set may hide
    the error, raise or never return, and the one of ``init_process_group`` prints nothing until its
    end (``torch/distributed/distributed_c10d.py``, 2.11). For the same reason the traceback goes to
    the file descriptor. An audit hook costs 0.2 us at each event, such as a call of ``id``.
    """
    _State.ends = True
    if not _State.is_added:
        sys.addaudithook(_hear)
        _State.is_added = True


def remove() -> None:
    """Let Python end as it does, for example to complete an upload."""
    _State.ends = False


def is_installed() -> bool:
    """Return whether an uncaught exception ends this process at once."""
    return _State.ends


def _hear(event: str, given: tuple[Any, ...]) -> None:
    if event == _EVENT and _State.ends:
        _, kind, error, trace = given
        if issubclass(kind, Exception):
            try:
                _print("".join(traceback.format_exception(kind, error, trace)))
            finally:
                os._exit(1)


def _print(text: str) -> None:
    """Write to the process's own stderr, after what waits in its buffers."""
    for stream in (sys.stdout, sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # closed, replaced, or None
            stream.flush()  # type: ignore[union-attr]
    left = text.encode(errors="backslashreplace")
    with suppress(OSError):  # no one reads it any more
        while left:
            left = left[os.write(_STDERR, left) :]

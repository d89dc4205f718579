"""End of a training process by an uncaught exception."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType


def install() -> None:
    """Let an uncaught exception end this process when its traceback is printed, with exit code 1.

    Python's own end first joins threads and data loader workers and destroys communicators. On
    H200 that takes 9 to 11 s (tests/gpu/results/matrix-2xh200.json: rank-exception beside
    rank-killed), in which no launcher knows of the failure.

    The traceback goes to the process's own stderr: the hook that ``init_process_group`` wraps
    around this one has replaced ``sys.stderr`` by a buffer, which it would print after the end
    (``torch/distributed/distributed_c10d.py``, 2.11).
    """
    show = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, Exception):
            show(kind, error, trace)
            return
        sys.stdout.flush()
        traceback.print_exception(kind, error, trace, file=sys.__stderr__)
        if sys.__stderr__ is not None:
            sys.__stderr__.flush()
        os._exit(1)

    sys.excepthook = end


def remove() -> None:
    """Let Python end as it does, for example to complete an upload."""
    sys.excepthook = sys.__excepthook__

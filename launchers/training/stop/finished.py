"""End of a training process that has finished, without the end of Python."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from typing import Any


class _State:
    """State of this process; a function of ``atexit`` gets no arguments."""

    is_trained = False


def note_trained() -> None:
    """Note that the trainer of this process has ended its training."""
    _State.is_trained = True


def end_at_exit() -> None:
    """Let this process end with 0 when its program does, if it has trained and raised nothing.

    While the interpreter ends, a C++ thread that drops the last reference to a tensor cannot take
    Python's lock any more, and the process ends with "terminate called without an active
    exception", SIGABRT: a run that has finished counts as failed. Seen with gloo, in 2 of some
    hundred ends on two busy cores, and with NCCL on H100 after a standby had resumed from the last
    step (tests/gpu/NOTES.md). It also takes 10 s there.

    What ``atexit`` calls later, because it was registered earlier, is left out; the launcher ends
    child processes. Other processes end as Python does. gloo's process groups end in both cases,
    as ms-swift's Megatron trainer does it; its transformers trainer leaves them (4.4.1 and 4.6.0).
    NCCL's groups stay as they are: to destroy them waits for other ranks.
    """
    atexit.register(_end)


def _end() -> None:
    dist: Any = sys.modules.get("torch.distributed")
    # a torch that is built without it has the module and nothing in it
    if hasattr(dist, "get_backend") and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
    has_raised = hasattr(sys, "last_value")  # set by Python for an uncaught exception
    if _State.is_trained and not has_raised:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # no one reads it any more
                stream.flush()
        os._exit(0)

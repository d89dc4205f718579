"""End of a training process that has finished, without the end of Python."""

import atexit
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from launchers import logs
from launchers.hang import heartbeat
from launchers.progress.trained import Trained


class _State:
    """State of this process; a function of ``atexit`` gets no arguments."""

    is_trained = False
    is_leaving = False
    is_ending = False
    before_ending: ClassVar[list[Callable[[], object]]] = []


def note_trained() -> None:
    """Note that the trainer of this process has ended its training.

    ms-swift then destroys the process groups (``swift/megatron/pipelines/train/sft.py``), which
    waits for the last rank's plots and takes NCCL 3.5 s on two H200. ``_end`` ends them all.
    """
    _State.is_trained = True
    heartbeat.current().note_trained()
    if (dist := _distributed()) and dist.get_backend() != "gloo":
        dist.destroy_process_group = lambda *_, **__: None


def note_leaving() -> None:
    """Note that this process ends its training because the launcher asks for it."""
    _State.is_leaving = True


def note_ending() -> None:
    """Note that the run ends with the next save: its budget is spent. It is on all ranks alike."""
    _State.is_ending = True
    for each in _State.before_ending:
        each()


def before_ending(call: Callable[[], object]) -> None:
    """Add a function that ``note_ending`` calls, so before that save."""
    _State.before_ending.append(call)


def is_last(step: int, planned: int) -> bool:
    """Return whether a save is the run's last, which is exported; arguments as of ``record``."""
    return step >= planned or _State.is_ending


def record(step: int, planned: int, *, is_stopped: bool = False) -> None:
    """Record on rank 0 that the trainer ends its training by itself.

    ``is_stopped``: a callback of the trainer has ended it.
    """
    folder = os.environ.get("DPO_ATTEMPT_FOLDER")
    if folder and os.environ.get("RANK", "0") == "0" and not _State.is_leaving:
        Trained.of(step, planned, is_stopped=is_stopped).write(Path(folder))


def end_at_exit() -> None:
    """Let this process end with 0 when its program does, if it has trained and raised nothing.

    While the interpreter ends, a C++ thread that drops the last reference to a tensor cannot take
    Python's lock any more, and the process ends with "terminate called without an active
    exception", SIGABRT: a run that has finished counts as failed. Seen with gloo, in 2 of some
    hundred ends on two busy cores, and with NCCL on H100 after a standby had resumed from the last
    step (tests/bench/notes/restarts.md). It also takes 10 s there.

    What ``atexit`` calls later, because it was registered earlier, is left out; the launcher ends
    child processes. Other processes end as Python does. gloo's process groups end in both cases,
    as ms-swift's Megatron trainer does it; its transformers trainer leaves them (4.4.1 and 4.6.0).
    NCCL's groups stay as they are: to destroy them waits for other ranks.
    """
    atexit.register(_end)


def _distributed() -> Any:
    """Return the module of the process groups; None without a group."""
    dist: Any = sys.modules.get("torch.distributed")
    # a torch that is built without it has the module and nothing in it
    return dist if hasattr(dist, "get_backend") and dist.is_initialized() else None


def _end() -> None:
    if (dist := _distributed()) and dist.get_backend() == "gloo":
        dist.destroy_process_group()
    has_raised = hasattr(sys, "last_value")  # set by Python for an uncaught exception
    if _State.is_trained and not has_raised:
        logging.shutdown()
        logs.flush()
        os._exit(0)

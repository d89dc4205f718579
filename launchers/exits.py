"""Exit codes: the API between the launcher and Kubernetes.

The chart's ``podFailurePolicy`` and the JobSet's ``failurePolicy`` read them (a test compares
both sides). User errors end the run without a restart, preemption restarts for free,
everything else counts against ``restarts.max``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any


class Exit(IntEnum):
    """Exit codes of the launcher; the low ones follow BSD ``sysexits.h``."""

    OK = 0
    PEER = 1
    """A peer ended first, or the cause is unknown: a cascade never reports a user code."""
    USAGE = 64
    DATA = 65
    INPUT_MISSING = 66
    UNAVAILABLE = 69
    QUOTA = 73
    IO = 74
    PREEMPTED = 75
    AUTH = 77
    CONFIG = 78
    OUT_OF_MEMORY = 79
    PREFLIGHT = 80
    HANG = 81
    INCOMPLETE = 82
    """Training has ended with exit code 0 before its last step."""
    NO_PROGRESS = 93
    TERMINATED = 143


USER = frozenset(
    {
        Exit.USAGE,
        Exit.DATA,
        Exit.INPUT_MISSING,
        Exit.QUOTA,
        Exit.AUTH,
        Exit.CONFIG,
        Exit.OUT_OF_MEMORY,
        Exit.NO_PROGRESS,
    }
)
"""Errors that only the user can correct. A restart would fail again: the JobSet fails at once."""

FREE = frozenset({Exit.PREEMPTED, Exit.TERMINATED})
"""Restarted without counting against ``restarts.max``."""


class FailureClass(StrEnum):
    """Class of an attempt's end, in termination messages and in records of attempts."""

    USER = "user"
    """Recipe, flags, paths, credentials or plugin."""
    DATA = "data"
    MODEL = "model"
    """Damaged or unsuitable weights, tokenizer or checkpoint; a loss or gradient not finite."""
    INFRA = "infra"
    """GPU, driver or another limit of the node."""
    NETWORK = "network"
    PREEMPTION = "preemption"
    HOST_MEMORY = "host-memory"
    """RAM of the pod, and its ``/dev/shm``."""
    GPU_MEMORY = "gpu-memory"
    HANG = "hang"
    INCOMPLETE = "incomplete"
    """Training has ended without an error before its last step."""
    STORAGE = "storage"
    """A full, unwritable or faulty workspace."""
    UNKNOWN = "unknown"


CLASSES = {
    Exit.OK: FailureClass.UNKNOWN,
    Exit.PEER: FailureClass.UNKNOWN,
    Exit.USAGE: FailureClass.USER,
    Exit.DATA: FailureClass.DATA,
    Exit.INPUT_MISSING: FailureClass.USER,
    Exit.UNAVAILABLE: FailureClass.NETWORK,
    Exit.QUOTA: FailureClass.STORAGE,
    Exit.IO: FailureClass.STORAGE,
    Exit.PREEMPTED: FailureClass.PREEMPTION,
    Exit.AUTH: FailureClass.USER,
    Exit.CONFIG: FailureClass.USER,
    Exit.OUT_OF_MEMORY: FailureClass.GPU_MEMORY,
    Exit.PREFLIGHT: FailureClass.INFRA,
    Exit.HANG: FailureClass.HANG,
    Exit.INCOMPLETE: FailureClass.INCOMPLETE,
    Exit.NO_PROGRESS: FailureClass.UNKNOWN,
    Exit.TERMINATED: FailureClass.PREEMPTION,
}
"""Class of an error that names no other one."""


NOTE = "exit code: "
"""Begins the line below the message in a traceback that ``system/failures.py`` reads: code, id, and
the class if it is not the code's."""


class LaunchError(Exception):
    """An expected failure: ends the launcher with ``code`` and one line, no traceback."""

    def __init__(
        self,
        code: Exit,
        cause: str,
        remedy: str,
        *,
        id: str,
        failure_class: FailureClass | None = None,
    ) -> None:
        """Say why the launcher ends.

        Args:
            code: the exit code of the contract.
            cause: what was given or seen, and what is wrong with it.
            remedy: what the user should write or do.
            id: stable name of the error in kebab-case; its wording may change, the id does not.
            failure_class: by default that of ``code`` in ``CLASSES``.
        """
        super().__init__(f"{cause}; {remedy}")
        self.code = code
        self.cause = cause
        self.remedy = remedy
        self.id = id
        self.failure_class = failure_class or CLASSES[code]
        other = f" {failure_class}" if self.failure_class != CLASSES[code] else ""
        self.add_note(f"{NOTE}{code.name} [{id}]{other}")
        self.stage = ""
        """The stage it ended, noted by ``during``."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its constructor's arguments: rank 0 sends its error to the other ranks."""
        made = partial(type(self), id=self.id, failure_class=self.failure_class)
        return made, (self.code, self.cause, self.remedy)


@contextmanager
def during(stage: str) -> Iterator[None]:
    """Note on an expected failure which stage it ended; the innermost stage counts."""
    try:
        yield
    except LaunchError as error:
        error.stage = error.stage or stage
        raise

"""A row of the table, what several rows share, and the patterns of cascades."""

import re
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from launchers.exits import CLASSES, Exit, FailureClass


@dataclass(frozen=True)
class FailureRule:
    """A pattern of a message, its class and its exit code."""

    id: str
    code: Exit
    expression: str
    remedy: str
    _: KW_ONLY
    kind: FailureClass | None = None
    """Its class; by default that of ``code`` (``exits.CLASSES``)."""
    early: bool = False
    """Applies only before the first step."""
    later: Exit | None = None
    """Exit code once a step was completed; by default ``code``."""
    in_log: bool = False
    """Also sought in the lines of a log whose last exception does not state a cause."""
    weak: bool = False
    """Another row that is sought in the lines of the log takes precedence: the exception may only
    be the consequence of what such a line states."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the compiled expression."""
        return re.compile(self.expression)

    @property
    def failure_class(self) -> FailureClass:
        """Return the class of the failure."""
        return self.kind or CLASSES[self.code]


CASCADE = re.compile(
    # a check of arguments may name NCCL or Gloo, too
    r"^(?!(?:Assertion|Value|Type|Import|NotImplemented)Error)"
    r".*(?:Connection (?:reset|closed|refused)|Broken pipe|NCCL(?!_)|ncclRemoteError|[Gg]loo"
    r"|TCPStore|DistNetworkError|DistStoreError|DistBackendError|SignalException|SIGTERM)"
)
"""Exceptions of a rank whose peer ended, or which torchrun ended."""
TERMINATED = re.compile(r"SignalException|SIGTERM")
WRAPPERS = re.compile(r"DatasetGenerationError")
"""Exceptions that only wrap another one."""

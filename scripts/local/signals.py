"""Ctrl-C and SIGTERM as something to look at, not as an exception in the middle of a start."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """How often the runner was asked to stop, and by which signal first."""

    count: int = 0
    number: int = 0

    def ask(self, number: int, _frame: FrameType | None = None) -> None:
        """Notes one more signal."""
        self.number = self.number or number
        self.count += 1

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process ended by that signal."""
        return 128 + self.number


@contextmanager
def stopping() -> Iterator[Stop]:
    """Notes SIGINT and SIGTERM while it is open."""
    stop = Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

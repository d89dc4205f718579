"""Ctrl-C and SIGTERM as a flag to poll, not as an exception while pods are being started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """The number of stop signals received, and the first of them."""

    count: int = 0
    number: int = 0

    def ask(self, number: int, _frame: FrameType | None = None) -> None:
        """Record a signal."""
        self.number = self.number or number
        self.count += 1

    @property
    def exit_code(self) -> int:
        """Return 128 + the first signal, as a shell expects."""
        return 128 + self.number


@contextmanager
def stopping() -> Iterator[Stop]:
    """Record SIGINT and SIGTERM while the context is open."""
    stop = Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

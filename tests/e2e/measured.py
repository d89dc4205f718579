"""Measured times, for the summary of the session."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

MEASURED: dict[str, float] = {}
"""Seconds by name."""


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Record the duration of the block if it succeeds."""
    began = time.monotonic()
    yield
    note(what, time.monotonic() - began)


def note(what: str, seconds: float) -> float:
    MEASURED[what] = seconds
    return seconds

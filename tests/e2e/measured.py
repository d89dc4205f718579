"""Times that the tests have seen, for the summary at their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

MEASURED: dict[str, float] = {}
"""Seconds by what they were."""


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Measure how long the block takes, if it ends well."""
    began = time.monotonic()
    yield
    note(what, time.monotonic() - began)


def note(what: str, seconds: float) -> float:
    """Keep a time, and return it."""
    MEASURED[what] = seconds
    return seconds

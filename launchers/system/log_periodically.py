"""A line every half minute from work that is silent by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from launchers import logs
from launchers.system.threads import regularly

EVERY = 30.0
"""Seconds between two lines."""


@contextmanager
def pulse(
    event: str, measure: Callable[[], Mapping[str, object]], *, every: float = EVERY
) -> Iterator[None]:
    """Log ``event`` with what ``measure`` says and the seconds so far, until the block ends."""
    started = time.monotonic()

    def tell() -> None:
        try:
            fields = measure()
        except OSError as error:  # a broken disk is reported by the work itself
            fields = {"unknown": error}
        logs.info(event, **fields, seconds=time.monotonic() - started)

    with regularly(tell, every, "pulse"):
        yield

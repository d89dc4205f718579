"""Waits of tests for what other processes and threads do."""

import time
from collections.abc import Callable


def eventually(happens: Callable[[], object], seconds: float = 30) -> bool:
    stop = time.monotonic() + seconds
    while not (found := bool(happens())) and time.monotonic() < stop:
        time.sleep(0.01)
    return found

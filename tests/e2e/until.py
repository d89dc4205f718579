"""Waiting with a deadline; these tests use no other wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE = 0.2
"""Poll interval in seconds: a read of the API server takes a few ms of a core."""
PROCESS_PAUSE = 0.5
"""That of a probe that starts processes: `why` takes 1 s of a core."""


def until(what: str, probe: Callable[[], T | None], *, seconds: float, pause: float = PAUSE) -> T:
    """Return the probe's first result that is neither None nor False."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(pause)

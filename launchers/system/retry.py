"""Retry with exponential backoff and jitter, up to a time limit."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from launchers import logs

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Time limit and delays of retries."""

    limit: float = 300.0
    """Seconds after the first failure within which a retry may start."""
    first: float = 1.0
    """Seconds before the first retry; doubled after each failure."""
    longest: float = 60.0
    """Upper bound of the delay, seconds."""

    def delay(self, failures: int, random: float) -> float:
        """Return the seconds to wait: between half of the doubled delay and all of it.

        ``failures`` begin with 1; ``random`` in [0, 1) spreads the retries of many pods.
        """
        bound = min(self.longest, self.first * float(2 ** min(failures - 1, 30)))
        return bound * (0.5 + 0.5 * random)


def is_transient(status: int) -> bool:
    """Return whether an HTTP status may succeed on a retry.

    >>> [s for s in (200, 401, 403, 404, 408, 416, 429, 500, 503) if is_transient(s)]
    [408, 429, 500, 503]
    """
    return status in (408, 429) or status >= 500


def retry(
    what: str,
    act: Callable[[], T],
    transient: Callable[[Exception], bool],
    policy: RetryPolicy | None = None,
) -> T:
    """Return the result of ``act``; retry it after transient errors.

    ``act`` continues where it stopped; errors that are not ``transient`` are raised at once.
    """
    policy = policy or RetryPolicy()
    stop = time.monotonic() + policy.limit
    failures = 0
    while True:
        try:
            return act()
        except Exception as error:
            failures += 1
            delay = policy.delay(failures, random.random())
            if not transient(error) or time.monotonic() + delay > stop:
                raise
            cause = str(error).splitlines()[0] if str(error) else type(error).__name__
            logs.warning("retry", what=what, failures=failures, pause=delay, cause=cause)
            time.sleep(delay)

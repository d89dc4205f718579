"""Try again what a network may have spoilt, for a bounded time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from launchers import logs

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long and how often to try."""

    total: float = 300.0
    """Seconds after the first failure in a row in which a new try may start: an outage of a hub
    is survived, a run that can't work ends."""
    first: float = 1.0
    """Seconds before the second try; doubled each time."""
    most: float = 60.0
    """Seconds between two tries at most."""

    def pause(self, failures: int, chance: float) -> float:
        """Return the seconds to wait: between half and all of the doubled pause.

        Args:
            failures: failed tries so far, 1 or more.
            chance: from [0, 1): many pods must not come back at the same moment.

        >>> [Patience().pause(n, 0.0) for n in (1, 2, 3, 20)]
        [0.5, 1.0, 2.0, 30.0]
        """
        longest = min(self.most, self.first * float(2 ** min(failures - 1, 30)))
        return longest * (0.5 + 0.5 * chance)


def is_transient(status: int) -> bool:
    """Tell whether an HTTP status is worth another try.

    >>> [s for s in (200, 401, 403, 404, 408, 416, 429, 500, 503) if is_transient(s)]
    [408, 429, 500, 503]
    """
    return status in (408, 429) or status >= 500


def retry(
    what: str,
    act: Callable[[], T],
    transient: Callable[[Exception], bool],
    patience: Patience | None = None,
) -> T:
    """Return what ``act`` returns; after a transient error wait and try again.

    Args:
        what: the work, for logs.
        act: does it, from where the last try left off.
        transient: tells whether an error may pass by itself; others are raised at once.
        patience: how long and how often; the last error is raised when it is used up.
    """
    patience = patience or Patience()
    stop = time.monotonic() + patience.total
    failures = 0
    while True:
        try:
            return act()
        except Exception as error:
            failures += 1
            pause = patience.pause(failures, random.random())
            if not transient(error) or time.monotonic() + pause > stop:
                raise
            cause = str(error).splitlines()[0] if str(error) else type(error).__name__
            logs.warning("retry", what=what, failures=failures, pause=pause, cause=cause)
            time.sleep(pause)

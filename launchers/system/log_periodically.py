"""Log lines at intervals from work that logs nothing itself."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from launchers import logs
from launchers.system.threads import repeat

INTERVAL_SECONDS = 30.0


@contextmanager
def log_periodically(
    event: str, measure: Callable[[], Mapping[str, object]], *, every: float = INTERVAL_SECONDS
) -> Iterator[None]:
    """Log ``event`` with the fields of ``measure`` and the elapsed seconds until the block ends."""
    started = time.monotonic()

    def report() -> None:
        try:
            fields = measure()
        except OSError as error:  # the work itself reports a broken disk
            fields = {"unknown": error}
        logs.info(event, **fields, seconds=time.monotonic() - started)

    with repeat(report, every, "log"):
        yield

"""Write the results of a rank to the store while the pass over the reference runs."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from launchers import logs
from launchers.reference import store
from launchers.reference.store import Pairs

FLUSH_SECONDS = 30.0
"""Seconds between two writes: what an interruption of the pass loses at most."""


class Batch(NamedTuple):
    """A micro-batch of the pass."""

    names: list[bytes]
    """Ids of its pairs."""
    tokens: int
    inputs: dict[str, Any]


class PartWriter:
    """Collects this rank's log-probabilities and writes them at intervals."""

    def __init__(self, folder: Path, *, keeps: bool, logs_progress: bool) -> None:
        """Begin without results.

        One of the ranks that compute the same pairs ``keeps`` them.
        """
        self.folder, self.keeps, self.logs_progress = folder, keeps, logs_progress
        self.pairs: Pairs = {}
        self.tokens = 0
        self._open: Pairs = {}
        self._started = self._flushed = time.monotonic()

    def keep(self, batch: list[Batch], counts: list[bool], found: list[list[float]]) -> None:
        """Add the log-probabilities of some micro-batches.

        Args:
            batch: the micro-batches.
            counts: for each, whether it does not repeat another rank's.
            found: for each, the values of all chosen, then of all rejected sequences, in nats;
                empty unless the rank holds the model's last pipeline stage.

        Raises:
            LaunchError: DATA when a value is not finite or contradicts another of the same pair.
        """
        if self.keeps:
            for micro, is_new, values in zip(batch, counts, found, strict=True):
                half = len(values) // 2
                pairs = zip(values[:half], values[half:], strict=True)
                store.add(self._open, zip(micro.names, pairs, strict=True), self.folder)
                self.tokens += micro.tokens if is_new else 0
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the results that are not on the workspace yet."""
        if self._open:
            store.add_part(self.folder, self._open)
            store.add(self.pairs, self._open.items(), self.folder)
        self._open, self._flushed = {}, time.monotonic()
        if self.logs_progress:
            seconds = self._flushed - self._started
            fields = {"pairs": len(self.pairs), "tokens": self.tokens, "seconds": seconds}
            print(logs.format_event("reference pass, rank 0", **fields), flush=True)

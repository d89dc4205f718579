"""What a rank keeps of the pass over the reference, and when it writes it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from launchers import logs
from launchers.training.reference import store
from launchers.training.reference.store import Pairs

FLUSH = 30.0
"""Seconds of a pass that a kill may lose."""


class Batch(NamedTuple):
    """A micro-batch of the pass."""

    names: list[bytes]
    tokens: int
    inputs: dict[str, Any]


class Keeper:
    """Keeps what this rank has taken, and writes it from time to time."""

    def __init__(self, folder: Path, *, keeps: bool, tells: bool) -> None:
        """Begin with nothing.

        Args:
            folder: the store.
            keeps: of the ranks that take the same pairs, one keeps them.
            tells: one rank of all says how far it is.
        """
        self.folder, self.keeps, self.tells = folder, keeps, tells
        self.pairs: Pairs = {}
        self.tokens = 0
        self._open: Pairs = {}
        self._started = self._flushed = time.monotonic()

    def keep(self, batch: list[Batch], counts: list[bool], found: list[list[float]]) -> None:
        """Add the log-probabilities of some micro-batches.

        Args:
            batch: the micro-batches.
            counts: which of them do not repeat another rank's.
            found: for each, those of all chosen, then of all rejected sequences; nothing where the
                rank does not hold the model's end.

        Raises:
            ReferenceDataError: one is no number, or contradicts another of the same pair.
        """
        if self.keeps:
            for micro, is_new, values in zip(batch, counts, found, strict=True):
                half = len(values) // 2
                pairs = zip(values[:half], values[half:], strict=True)
                named = zip(micro.names, pairs, strict=True)
                store.add(self._open, named, self.folder)
                self.tokens += micro.tokens if is_new else 0
        if time.monotonic() - self._flushed > FLUSH:
            self.flush()

    def flush(self) -> None:
        """Write what is not yet on the workspace."""
        if self._open:
            store.add_part(self.folder, self._open)
            store.add(self.pairs, self._open.items(), self.folder)
        self._open, self._flushed = {}, time.monotonic()
        if self.tells:
            seconds = self._flushed - self._started
            fields = {"pairs": len(self.pairs), "tokens": self.tokens, "seconds": seconds}
            print(logs.line("reference pass, rank 0", **fields), flush=True)

"""Counts what a trainer reads, and clocks how long it waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LENGTHS = ("seq_lens", "completion_seq_lens")
"""Where ms-swift's Megatron batches have their lengths; the second in KTO (4.4.1
``template/base.py`` ``_kto_data_collator``), whose KL rows (``KL_completion_*``) train nothing."""


@dataclass(kw_only=True)
class Tally:
    """What one rank has read since the step began."""

    tokens: int = 0
    squares: int = 0
    sequences: int = 0
    seconds: float = 0.0

    def add(self, lengths: list[int]) -> None:
        """Count sequences by their lengths without padding."""
        self.tokens += sum(lengths)
        self.squares += sum(length * length for length in lengths)
        self.sequences += len(lengths)

    def clear(self) -> None:
        """Begin the next step."""
        self.tokens = self.squares = self.sequences = 0
        self.seconds = 0.0


class Reading:
    """A trainer's data iterator, counted.

    ms-swift 4.4.1 ``template/base.py`` ``_data_collator``: ``LENGTHS`` of a Megatron batch is the
    list of its sequences' lengths before any padding; in DPO all chosen ones, then all rejected.
    """

    def __init__(self, inner: Iterator[Any], tally: Tally, *, counts: bool = True) -> None:
        """Wrap an iterator.

        Args:
            inner: of microbatches.
            tally: where to count.
            counts: False where another iterator reads the same (chunks of a virtual pipeline):
                then only the waiting is clocked.
        """
        self._inner, self._tally, self._counts = inner, tally, counts

    def __iter__(self) -> Reading:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Read a microbatch."""
        began = time.perf_counter()
        data = next(self._inner)
        self._tally.seconds += time.perf_counter() - began
        if self._counts and isinstance(data, dict):
            self._tally.add(next(filter(None, map(data.get, LENGTHS)), []))
        return data


def counted(iterator: Any, tally: Tally) -> Any:
    """Wrap what ``train_step`` is given: an iterator, or a list with one for each model chunk."""
    if not isinstance(iterator, list):
        return Reading(iterator, tally)
    return [Reading(each, tally, counts=chunk == 0) for chunk, each in enumerate(iterator)]

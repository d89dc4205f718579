"""Count the tokens that a trainer reads, and measure how long it waits for data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from launchers.reference.pairs import SHARED

LENGTHS = ("seq_lens", "completion_seq_lens")
"""Keys of the lengths in ms-swift's Megatron batches; the second is KTO's (4.4.1
``template/base.py`` ``_kto_data_collator``), whose KL rows (``KL_completion_*``) are not
trained."""


@dataclass(kw_only=True)
class Tally:
    """Counts of one rank since the step began; lengths in tokens."""

    tokens: int = 0
    squares: int = 0
    """Of the lengths; of a text whose first tokens are computed in another one, the square of all
    its tokens less that of the first ones, so that attention's cost is half of it, too."""
    sequences: int = 0
    seconds: float = 0.0
    """Time waited for data."""

    def add(self, lengths: list[int], shared: Sequence[int] = ()) -> None:
        """Add sequences.

        ``lengths`` are computed tokens; ``shared`` of the last sequences another one computes.
        """
        self.tokens += sum(lengths)
        self.squares += sum(length * length for length in lengths)
        last = lengths[len(lengths) - len(shared) :]
        self.squares += sum(2 * n * more for n, more in zip(last, shared, strict=True))
        self.sequences += len(lengths)

    def clear(self) -> None:
        """Reset the counts for the next step."""
        self.tokens = self.squares = self.sequences = 0
        self.seconds = 0.0


class Reading:
    """A trainer's data iterator that counts what it yields.

    ms-swift 4.4.1 ``template/base.py`` ``_data_collator``: ``LENGTHS`` of a Megatron batch is the
    list of its sequences' lengths before any padding; in DPO all chosen, then all rejected ones.
    """

    def __init__(self, inner: Iterator[Any], tally: Tally, *, counts: bool = True) -> None:
        """Wrap an iterator.

        Args:
            inner: iterator of microbatches.
            tally: counts to add to.
            counts: False if another iterator reads the same data (chunks of a virtual pipeline):
                then only the waiting time is added.
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
            lengths: list[int] = next(filter(None, map(data.get, LENGTHS)), [])
            self._tally.add(lengths, data.get(SHARED, ()))
        return data


def counted(iterator: Any, tally: Tally) -> Any:
    """Wrap the argument of ``train_step``: an iterator, or a list with one per model chunk."""
    if not isinstance(iterator, list):
        return Reading(iterator, tally)
    return [Reading(each, tally, counts=chunk == 0) for chunk, each in enumerate(iterator)]

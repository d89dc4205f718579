"""The numbers that all ranks add up once a step, in one vector and so in one all-reduce.

Each rank writes only its own places and zeros elsewhere, so that the sum holds every rank's
numbers side by side: sums, maxima and shares all follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIELDS = ("tokens", "squares", "sequences", "data_seconds", "allocated", "reserved")
"""Of each rank. The first three are 0 on ranks that read what another rank reads too: those of
one tensor, context or pipeline group."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the ranks know together."""

    tokens: int
    squares: float
    sequences: int
    data_seconds: float
    """Of the rank that waited longest."""
    allocated: float
    """Bytes, of the rank that has most."""
    reserved: float
    token_balance: float | None
    """Most over mean of the ranks that count."""
    expert_load: float | None = None
    expert_load_worst: float | None = None


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where each number is."""

    world: int
    layers: int = 0
    """Layers of the model; 0 for one without experts."""
    experts: int = 0
    """Routed experts of a layer."""

    @property
    def size(self) -> int:
        """Return the length of the vector."""
        return self.world * len(FIELDS) + self.layers * self.experts

    def rank(self, rank: int) -> slice:
        """Return where a rank writes its ``FIELDS``."""
        return slice(rank * len(FIELDS), (rank + 1) * len(FIELDS))

    def layer(self, layer: int, first: int, count: int) -> slice:
        """Return where the rows of a layer's experts ``first`` to ``first + count`` are.

        >>> Places(world=1, layers=2, experts=4).layer(1, 2, 2)
        slice(12, 14, None)
        """
        begin = self.world * len(FIELDS) + layer * self.experts + first
        return slice(begin, begin + count)


def shared(values: Sequence[float], places: Places) -> Shared:
    """Read the sum of all ranks' vectors."""
    ranks = [values[places.rank(rank)] for rank in range(places.world)]
    tokens, squares, sequences, data, allocated, reserved = zip(*ranks, strict=True)
    loads = _loads(values, places)
    return Shared(
        tokens=round(sum(tokens)),
        squares=sum(squares),
        sequences=round(sum(sequences)),
        data_seconds=max(data),
        allocated=max(allocated),
        reserved=max(reserved),
        token_balance=_most_over_mean([each for each in tokens if each]),
        expert_load=sum(loads) / len(loads) if loads else None,
        expert_load_worst=max(loads, default=None),
    )


def _loads(values: Sequence[float], places: Places) -> list[float]:
    """Return most over mean of each layer that has rows: dense layers have none."""
    layers = (values[places.layer(n, 0, places.experts)] for n in range(places.layers))
    return [found for rows in layers if (found := _most_over_mean(rows)) is not None]


def _most_over_mean(values: Sequence[float]) -> float | None:
    """Return the largest over the mean; None where there is nothing.

    >>> _most_over_mean([3.0, 1.0, 2.0]), _most_over_mean([0.0]), _most_over_mean([])
    (1.5, None, None)
    """
    whole = sum(values)
    return max(values) * len(values) / whole if whole else None

"""The vector that all ranks sum once a step, with one all-reduce.

Each rank writes only its own elements and zeros elsewhere, so that the sum contains the numbers of
every rank: sums, maxima and ratios can be computed from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

FIELDS = ("tokens", "squares", "sequences", "data_seconds", "allocated", "reserved", "watts")
"""Numbers of each rank. The first three are 0 on all but one of the ranks that read the same data:
those of a tensor, context or pipeline group."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The measurements of all ranks together."""

    tokens: int
    squares: float
    sequences: int
    data_seconds: float
    """Time waited for data, on the rank that waited longest."""
    allocated: float
    """Peak in bytes, on the rank with the largest."""
    reserved: float
    token_balance: float | None
    """Largest over mean number of tokens, of the ranks that count."""
    watts: float | None = None
    """Power of all GPUs; None if that of one is not known."""
    expert_load: float | None = None
    expert_load_worst: float | None = None


@dataclass(frozen=True, kw_only=True)
class Places:
    """The layout of the vector."""

    world: int
    layers: int = 0
    """Layers of the model; 0 for a model without experts."""
    experts: int = 0
    """Routed experts of a layer."""

    @property
    def size(self) -> int:
        """Return the length of the vector."""
        return self.world * len(FIELDS) + self.layers * self.experts

    def rank(self, rank: int) -> slice:
        """Return the elements of a rank's ``FIELDS``."""
        return slice(rank * len(FIELDS), (rank + 1) * len(FIELDS))

    def layer(self, layer: int, first: int, count: int) -> slice:
        """Return the elements of the experts ``first`` to ``first + count`` of a layer.

        >>> Places(world=1, layers=2, experts=4).layer(1, 2, 2)
        slice(13, 15, None)
        """
        begin = self.world * len(FIELDS) + layer * self.experts + first
        return slice(begin, begin + count)


def shared(values: Sequence[float], places: Places) -> Shared:
    """Return the measurements in the sum of all ranks' vectors."""
    ranks = [values[places.rank(rank)] for rank in range(places.world)]
    tokens, squares, sequences, data, allocated, reserved, watts = zip(*ranks, strict=True)
    loads = _loads(values, places)
    return Shared(
        tokens=round(sum(tokens)),
        squares=sum(squares),
        sequences=round(sum(sequences)),
        data_seconds=max(data),
        allocated=max(allocated),
        reserved=max(reserved),
        watts=sum(watts) if all(watts) else None,
        token_balance=_max_over_mean([each for each in tokens if each]),
        expert_load=sum(loads) / len(loads) if loads else None,
        expert_load_worst=max(loads, default=None),
    )


def _loads(values: Sequence[float], places: Places) -> list[float]:
    """Return the largest over the mean of each layer that has rows; dense layers have none."""
    layers = (values[places.layer(n, 0, places.experts)] for n in range(places.layers))
    return [found for rows in layers if (found := _max_over_mean(rows)) is not None]


def _max_over_mean(values: Sequence[float]) -> float | None:
    """Return the largest over the mean; None for no values or only zeros.

    >>> _max_over_mean([3.0, 1.0, 2.0]), _max_over_mean([0.0]), _max_over_mean([])
    (1.5, None, None)
    """
    whole = sum(values)
    return max(values) * len(values) / whole if whole else None

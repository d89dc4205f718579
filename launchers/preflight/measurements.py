"""Records of the measurement, one per rank, and their arithmetic. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

PHASES = ("start", "rendezvous", "compute", "node", "world", "pairs", "report", "done")
"""Phases of a rank, in order."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One collective at one size, timed by the slowest rank of its group."""

    scope: str
    """``node`` or ``world``."""
    op: str
    """``all_reduce`` or ``all_to_all``."""
    size: int
    """Bytes per rank, as nccl-tests defines them."""
    gbs: float
    """Bus bandwidth, GB/s."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two ranks that send to each other simultaneously."""

    kind: str
    """``node`` or ``network``."""
    one: int
    other: int
    gbs: float
    """GB/s in each direction."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Measurements of one rank."""

    rank: int
    node_rank: int
    pod: str
    node: str
    device: str
    """Index and UUID of its GPU."""
    card: str
    """The GPU model as the driver reports it."""
    tflops: float
    inside: tuple[str, ...]
    """Transports to ranks of the same node, in NCCL's names."""
    across: tuple[str, ...]
    """Transports to ranks of other nodes."""
    network: str
    """The network that NCCL chose, used or not."""
    rows: tuple[Row, ...]
    """Rows of the groups whose first rank this is."""
    pairs: tuple[Pair, ...]

    @property
    def name(self) -> str:
        """Return the rank with its pod, node and device.

        Example:
            ``rank 3 (r-node-0-1 on host-b, GPU 1 GPU-0a1b)``
        """
        place = " on ".join(filter(None, [self.pod, self.node])) or f"node rank {self.node_rank}"
        return f"rank {self.rank} ({place}, {self.device})"

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return asdict(self)


def record_of(fields: Mapping[str, Any]) -> Record:
    """Parse the output of ``Record.fields``."""
    sequences = {name: tuple(fields[name]) for name in ("inside", "across")}
    rows = tuple(Row(**row) for row in fields["rows"])
    pairs = tuple(Pair(**pair) for pair in fields["pairs"])
    return Record(**{**fields, **sequences, "rows": rows, "pairs": pairs})


def busbw(op: str, size: int, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth in GB/s.

    Source: nccl-tests, doc/PERFORMANCE.md: all-reduce moves 2 (n - 1) / n of its bytes over each
    rank's link, all-to-all (n - 1) / n.

    >>> busbw("all_reduce", 8 * 10**9, 1.0, 8), busbw("all_to_all", 8 * 10**9, 1.0, 8)
    (14.0, 7.0)
    """
    factor = {"all_reduce": 2.0, "all_to_all": 1.0}[op] * (ranks - 1) / ranks
    return size / seconds / 1e9 * factor


def rounds(nodes: int, nproc: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """Pair each rank with its neighbours: (kind, pairs of ranks that exchange simultaneously).

    Inside a node the next GPU, between nodes the same GPU of the next node.
    """
    found = []
    for pairs in _neighbours(nproc):
        all_nodes = [(k * nproc + a, k * nproc + b) for k in range(nodes) for a, b in pairs]
        found.append(("node", all_nodes))
    for pairs in _neighbours(nodes):
        every = [(a * nproc + i, b * nproc + i) for a, b in pairs for i in range(nproc)]
        found.append(("network", every))
    return found


def _neighbours(count: int) -> list[list[tuple[int, int]]]:
    """Split the ring of ``count`` into sets of disjoint pairs.

    >>> _neighbours(1), _neighbours(2), _neighbours(3)
    ([], [[(0, 1)]], [[(0, 1)], [(1, 2)], [(0, 2)]])
    """
    even = [(i, i + 1) for i in range(0, count - 1, 2)]
    odd = [(i, i + 1) for i in range(1, count - 1, 2)]
    last = [(0, count - 1)] if count > 2 else []
    return [pairs for pairs in (even, odd, last) if pairs]


def behind(phases: Mapping[int, str], world: int) -> str:
    """Return text on the ranks in the earliest phase.

    >>> behind({0: "world", 1: "rendezvous"}, 3)
    'rank 2 has not started'
    >>> behind({0: "world", 1: "rendezvous"}, 2), behind({0: "node", 1: "node"}, 2)
    ('rank 1 hangs in rendezvous', 'every rank hangs in node')
    """
    reached = [PHASES.index(phases[r]) if phases.get(r) in PHASES else -1 for r in range(world)]
    least = min(reached)
    ranks = [str(rank) for rank, phase in enumerate(reached) if phase == least]
    who = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks[:8])}"
    who += f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    who = "every rank" if len(ranks) == world > 1 else who
    if least < 0:
        return f"{who} {'have' if 1 < len(ranks) < world else 'has'} not started"
    return f"{who} {'hang' if 1 < len(ranks) < world else 'hangs'} in {PHASES[least]}"

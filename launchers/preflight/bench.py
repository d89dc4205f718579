"""Timing of collectives, exchanges and matrix products on one rank; torch is handed in.

The figures are those of nccl-tests: bytes over the time of the group's slowest rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from launchers.preflight.measurements import Pair, Row, busbw, rounds

REPEATS = 3
"""Times that each figure is taken; the best counts, since others only ever add time."""
BUDGET = 0.6
"""Seconds that one figure may take."""
PATIENCE = 4.0
"""Seconds of one call beyond which a size is left out."""
SLOW_LINK = 0.05
"""Seconds of a large message beyond which pairs are measured with the small one."""


class Bench:
    """Times what one rank does with the others."""

    def __init__(self, torch: Any, device: Any, rank: int) -> None:
        """Take torch and the rank's device."""
        self.torch, self.dist = torch, torch.distributed
        self.device, self.rank = device, rank

    def sync(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def slowest(self, seconds: float, group: Any) -> float:
        """Return the highest of the group's values; all ranks leave it together."""
        value = self.torch.tensor([seconds], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(value, op=self.dist.ReduceOp.MAX, group=group)
        return float(value.item())

    def once(self, act: Callable[[], object], count: int, group: Any) -> float:
        """Return the seconds of one of ``count`` calls, of the group's slowest rank."""
        self.slowest(0.0, group)  # all begin together
        begin = time.perf_counter()
        for _ in range(count):
            act()
        self.sync()
        return self.slowest((time.perf_counter() - begin) / count, group)

    def timed(self, act: Callable[[], object], group: Any) -> float:
        """Return the best seconds of one call; the first call, which connects, does not count."""
        self.once(act, 1, group)
        first = self.once(act, 1, group)
        count = max(1, min(20, int(BUDGET / REPEATS / max(first, 1e-6))))
        return min(first, *(self.once(act, count, group) for _ in range(REPEATS)))

    def collectives(
        self, scope: str, op: str, sizes: Sequence[int], group: Any, ranks: int
    ) -> list[Row]:
        """Measure one collective at rising sizes; those that would take too long are left out."""
        rows: list[Row] = []
        seconds, before = 0.0, 1
        for size in sizes:
            if seconds * size / before > PATIENCE:
                break
            seconds, before = self.timed(self._call(op, size, group, ranks), group), size
            gbs = round(busbw(op, size, seconds, ranks), 3)
            rows.append(Row(scope=scope, op=op, size=size, gbs=gbs))
        return rows

    def _call(self, op: str, size: int, group: Any, ranks: int) -> Callable[[], object]:
        """Prepare one collective; of zeros, so that no sum runs over."""
        count = size // 4 // ranks * ranks
        data = self.torch.zeros(count, dtype=self.torch.float32, device=self.device)
        if op == "all_reduce":
            return lambda: self.dist.all_reduce(data, group=group)
        other = self.torch.empty_like(data)
        return lambda: self.dist.all_to_all_single(other, data, group=group)

    def neighbours(self, nodes: int, nproc: int, sizes: tuple[int, int]) -> list[Pair]:
        """Exchange with each neighbour; the pairs of a round do so at the same time.

        Each pair is told by its lower rank.

        Args:
            nodes: pods of the gang.
            nproc: ranks of each.
            sizes: bytes of one message: on a slow link the first counts, else the second.
        """
        mine = self.torch.zeros(sizes[1] // 4, dtype=self.torch.float32, device=self.device)
        theirs = self.torch.empty_like(mine)
        whole, found = self.dist.group.WORLD, []
        for kind, pairs in rounds(nodes, nproc):
            peer = next((a + b - self.rank for a, b in pairs if self.rank in (a, b)), None)
            small = slice(sizes[0] // 4)
            self.slowest(self._exchange(peer, mine[small], theirs[small], 1), whole)
            first = self.slowest(self._exchange(peer, mine[small], theirs[small], 1), whole)
            part = small if first * sizes[1] / sizes[0] > SLOW_LINK else slice(sizes[1] // 4)
            times = []
            for _ in range(REPEATS + 1):
                self.slowest(0.0, whole)
                times.append(self._exchange(peer, mine[part], theirs[part], 4))
            if peer is not None and self.rank < peer:
                gbs = round(len(mine[part]) * 4 / min(times) / 1e9, 3)
                found.append(Pair(kind=kind, one=self.rank, other=peer, gbs=gbs))
        return found

    def _exchange(self, peer: int | None, mine: Any, theirs: Any, count: int) -> float:
        """Send and receive at once; return the seconds of one exchange."""
        begin = time.perf_counter()
        for _ in range(count if peer is not None else 0):
            both = [
                self.dist.P2POp(self.dist.isend, mine, peer),
                self.dist.P2POp(self.dist.irecv, theirs, peer),
            ]
            for work in self.dist.batch_isend_irecv(both):
                work.wait()
        self.sync()
        return (time.perf_counter() - begin) / count

    def matrix(self, size: int) -> float:
        """Return the TFLOP/s of a square matrix product: bf16 on a GPU, fp32 on CPU."""
        kind = self.torch.bfloat16 if self.device.type == "cuda" else self.torch.float32
        left = self.torch.randn(size, size, dtype=kind, device=self.device)
        best, stop = float("inf"), time.perf_counter() + BUDGET
        while time.perf_counter() < stop:  # long enough for the clocks to rise from idle
            self.sync()
            begin = time.perf_counter()
            for _ in range(10):
                self.torch.matmul(left, left)
            self.sync()
            best = min(best, (time.perf_counter() - begin) / 10)
        return float(2 * size**3 / best / 1e12)

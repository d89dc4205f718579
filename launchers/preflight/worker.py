"""One rank of the measurement before training: ``python -m launchers.preflight.worker PLAN``.

The launcher starts one for each GPU, with RANK and the rendezvous in the environment; PLAN is
JSON of ``CollectivePlan``. Each rank writes its current phase, so that a hang can be attributed;
the first rank of each node writes the records of all ranks. On CPU it runs with gloo. Bandwidths
are those of nccl-tests: bytes over the time of the slowest rank of the group.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from launchers.preflight.measurements import Pair, Record, Row, busbw, rounds
from launchers.preflight.transport import transports

MIB = 1 << 20
REPEATS = 3
"""Repetitions of each measurement; the best counts, since disturbances only add time."""
BUDGET_SECONDS = 0.6
"""Time limit of one measurement."""
CALL_LIMIT_SECONDS = 4.0
"""Predicted time of one call above which a size is skipped."""
SLOW_LINK_SECONDS = 0.05
"""Time of a large message above which pairs use the small one."""


@dataclass(frozen=True, kw_only=True)
class CollectivePlan:
    """Parameters of the measurement."""

    folder: str
    """Folder of phases and NCCL's logs."""
    result: str
    """File that the first rank of this node writes."""
    nodes: int
    nproc: int
    node_rank: int
    pod: str
    node: str
    seconds: int
    """Timeout of a collective."""
    cuda: bool
    all_reduce: tuple[int, ...] = (64 * MIB, 1024 * MIB)
    """Bytes per rank."""
    all_to_all: tuple[int, ...] = (64 * MIB, 235 * MIB)
    """Bytes per rank; the larger is an expert-parallel message of Qwen3-30B-A3B: 8,192 tokens x 8
    experts x 2,048 x 2 bytes, less the eighth that stays."""
    pair: tuple[int, int] = (16 * MIB, 256 * MIB)
    """Bytes of a message between neighbours, on a slow and on a fast link."""
    matrix: int = 8192
    """Rows of the matrix whose square is timed."""

    def argument(self) -> str:
        """Return the command-line argument."""
        return json.dumps(asdict(self))

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return self.nodes * self.nproc


class Bench:
    """Times collectives, exchanges and matrix products on one rank."""

    def __init__(self, torch: Any, device: Any, rank: int) -> None:
        """Create it for a device; torch is passed in."""
        self.torch, self.dist = torch, torch.distributed
        self.device, self.rank = device, rank

    def sync(self) -> None:
        """Synchronise the device."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def slowest(self, seconds: float, group: Any) -> float:
        """Return the maximum over the group, which also synchronises its ranks."""
        value = self.torch.tensor([seconds], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(value, op=self.dist.ReduceOp.MAX, group=group)
        return float(value.item())

    def once(self, act: Callable[[], object], count: int, group: Any) -> float:
        """Return the seconds per call of ``count`` calls on the slowest rank of the group."""
        self.slowest(0.0, group)  # synchronise the start
        begin = time.perf_counter()
        for _ in range(count):
            act()
        self.sync()
        return self.slowest((time.perf_counter() - begin) / count, group)

    def timed(self, act: Callable[[], object], group: Any) -> float:
        """Return the best seconds per call, without the first call, which connects."""
        self.once(act, 1, group)
        first = self.once(act, 1, group)
        count = max(1, min(20, int(BUDGET_SECONDS / REPEATS / max(first, 1e-6))))
        return min(first, *(self.once(act, count, group) for _ in range(REPEATS)))

    def collectives(
        self, scope: str, op: str, sizes: Sequence[int], group: Any, ranks: int
    ) -> list[Row]:
        """Measure one collective at rising sizes; skip sizes that would take too long."""
        rows: list[Row] = []
        seconds, before = 0.0, 1
        for size in sizes:
            if seconds * size / before > CALL_LIMIT_SECONDS:
                break
            seconds, before = self.timed(self._call(op, size, group, ranks), group), size
            gbs = round(busbw(op, size, seconds, ranks), 3)
            rows.append(Row(scope=scope, op=op, size=size, gbs=gbs))
        return rows

    def _call(self, op: str, size: int, group: Any, ranks: int) -> Callable[[], object]:
        """Return a function that runs one collective, on zeros to avoid overflow."""
        count = size // 4 // ranks * ranks
        data = self.torch.zeros(count, dtype=self.torch.float32, device=self.device)
        if op == "all_reduce":
            return lambda: self.dist.all_reduce(data, group=group)
        other = self.torch.empty_like(data)
        return lambda: self.dist.all_to_all_single(other, data, group=group)

    def neighbours(self, nodes: int, nproc: int, sizes: tuple[int, int]) -> list[Pair]:
        """Exchange with each neighbour; the pairs of a round exchange simultaneously.

        The lower rank of a pair reports it.
        ``sizes``: bytes of one message on a slow and on a fast link.
        """
        mine = self.torch.zeros(sizes[1] // 4, dtype=self.torch.float32, device=self.device)
        theirs = self.torch.empty_like(mine)
        whole, found = self.dist.group.WORLD, []
        for kind, pairs in rounds(nodes, nproc):
            peer = next((a + b - self.rank for a, b in pairs if self.rank in (a, b)), None)
            small = slice(sizes[0] // 4)
            self.slowest(self._exchange(peer, mine[small], theirs[small], 1), whole)
            first = self.slowest(self._exchange(peer, mine[small], theirs[small], 1), whole)
            part = (
                small if first * sizes[1] / sizes[0] > SLOW_LINK_SECONDS else slice(sizes[1] // 4)
            )
            times = []
            for _ in range(REPEATS + 1):
                self.slowest(0.0, whole)
                times.append(self._exchange(peer, mine[part], theirs[part], 4))
            if peer is not None and self.rank < peer:
                gbs = round(len(mine[part]) * 4 / min(times) / 1e9, 3)
                found.append(Pair(kind=kind, one=self.rank, other=peer, gbs=gbs))
        return found

    def _exchange(self, peer: int | None, mine: Any, theirs: Any, count: int) -> float:
        """Send and receive simultaneously; return the seconds per exchange."""
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
        best, stop = float("inf"), time.perf_counter() + BUDGET_SECONDS
        while time.perf_counter() < stop:  # long enough for clocks to rise from idle
            self.sync()
            begin = time.perf_counter()
            for _ in range(10):
                self.torch.matmul(left, left)
            self.sync()
            best = min(best, (time.perf_counter() - begin) / 10)
        return float(2 * size**3 / best / 1e12)


class Worker:
    """One rank of the measurement."""

    def __init__(self, plan: CollectivePlan, rank: int) -> None:
        """Create the worker of one rank."""
        self.plan, self.rank, self.local = plan, rank, rank % plan.nproc

    def phase(self, name: str) -> None:
        """Write the current phase."""
        (Path(self.plan.folder) / f"phase-{self.rank}").write_text(name, encoding="utf-8")

    def run(self) -> None:
        """Measure and exchange the records."""
        plan = self.plan
        self.phase("start")
        import torch
        import torch.distributed as dist

        device = torch.device("cuda", self.local) if plan.cuda else torch.device("cpu")
        if plan.cuda:
            torch.cuda.set_device(device)
        self.phase("rendezvous")
        self.join(dist)
        bench = Bench(torch, device, self.rank)
        self.phase("compute")
        tflops = bench.matrix(plan.matrix)
        rows = self.collectives(bench, dist)
        self.phase("pairs")
        pairs = bench.neighbours(plan.nodes, plan.nproc, plan.pair)
        self.phase("report")
        self.report(self.record(torch, device, tflops, rows, pairs))
        self.phase("done")

    def join(self, dist: Any) -> None:
        """Initialise the process group; keep the store to exchange records."""
        timeout = timedelta(seconds=self.plan.seconds)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.store = dist.TCPStore(
            address, port, self.plan.world, self.rank == 0, timeout, wait_for_workers=False
        )
        dist.init_process_group(
            "nccl" if self.plan.cuda else "gloo",
            store=dist.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.plan.world,
            timeout=timeout,
        )

    def collectives(self, bench: Bench, dist: Any) -> list[Row]:
        """Measure inside all nodes simultaneously, then over the gang."""
        plan, rows, world = self.plan, [], dist.group.WORLD
        sizes = {"all_reduce": plan.all_reduce, "all_to_all": plan.all_to_all}
        if plan.nproc > 1:
            self.phase("node")
            first = plan.node_rank * plan.nproc
            own = list(range(first, first + plan.nproc))
            near = world
            if plan.nodes > 1:
                near = dist.new_group(own, use_local_synchronization=True)
            for op, each in sizes.items():
                rows += bench.collectives("node", op, each, near, plan.nproc)
        if plan.nodes > 1:
            self.phase("world")
            for op, each in sizes.items():
                rows += bench.collectives("world", op, each, world, plan.world)
        return rows

    def record(
        self, torch: Any, device: Any, tflops: float, rows: list[Row], pairs: list[Pair]
    ) -> Record:
        """Return this rank's record; the transports are read from NCCL's log."""
        log = ""
        with contextlib.suppress(OSError, KeyError):
            log = Path(os.environ["NCCL_DEBUG_FILE"]).read_text(errors="replace")
        inside, across, network = transports(log, self.plan.node_rank, self.plan.nproc)
        name, gpu_model = f"CPU {self.local}", "CPU"
        if self.plan.cuda:
            properties = torch.cuda.get_device_properties(device)
            name, gpu_model = f"GPU {self.local} GPU-{properties.uuid}", str(properties.name)
        return Record(
            rank=self.rank,
            node_rank=self.plan.node_rank,
            pod=self.plan.pod,
            node=self.plan.node,
            device=name,
            card=gpu_model,
            tflops=round(tflops, 3),
            inside=tuple(sorted(inside)),
            across=tuple(sorted(across)),
            network=network,
            rows=tuple(rows) if self.local == 0 else (),
            pairs=tuple(pairs),
        )

    def report(self, own: Record) -> None:
        """Exchange the records through the store; rank 0 waits until all ranks have them."""
        world = self.plan.world
        self.store.set(f"record/{self.rank}", json.dumps(own.fields()))
        if self.rank == 0:
            found = [json.loads(self.store.get(f"record/{r}")) for r in range(world)]
            self.store.set("records", json.dumps(found))
        if self.local == 0:
            partial = Path(f"{self.plan.result}.partial")
            partial.write_bytes(self.store.get("records"))
            partial.replace(self.plan.result)
        gone = self.store.add("gone", 1)
        while self.rank == 0 and gone < world:
            time.sleep(0.01)
            gone = self.store.add("gone", 0)


if __name__ == "__main__":
    Worker(CollectivePlan(**json.loads(sys.argv[1])), int(os.environ["RANK"])).run()
    sys.stdout.flush()
    os._exit(0)  # NCCL's threads would only delay the exit

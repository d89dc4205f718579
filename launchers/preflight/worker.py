"""One rank of the measurement before training: ``python -m launchers.preflight.worker PLAN``.

The launcher starts one for each GPU, with RANK and the rendezvous in the environment; PLAN is
JSON of ``Plan``. Each rank writes the phase that it is in, so that a hang names the ranks that are
behind; the first of each node writes all ranks' records. It runs with gloo on CPU too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from launchers.preflight.bench import Bench
from launchers.preflight.measurements import Pair, Record, Row
from launchers.preflight.transport import transports

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured, and where it is told."""

    folder: str
    """Where phases and NCCL's logs go."""
    result: str
    """File that the first rank of this node writes."""
    nodes: int
    nproc: int
    node_rank: int
    pod: str
    node: str
    seconds: int
    """After which a collective that hangs is given up."""
    cuda: bool
    all_reduce: tuple[int, ...] = (64 * MIB, 1024 * MIB)
    """Bytes a rank."""
    all_to_all: tuple[int, ...] = (64 * MIB, 235 * MIB)
    """Bytes a rank; the larger is an expert-parallel message of Qwen3-30B-A3B: 8,192 tokens x 8
    experts x 2,048 x 2 bytes, less the eighth that stays."""
    pair: tuple[int, int] = (16 * MIB, 256 * MIB)
    """Bytes of a message between neighbours, over a slow link and a fast one."""
    matrix: int = 8192
    """Rows of the matrix whose square is timed."""

    def argument(self) -> str:
        """Spell it for the command line."""
        return json.dumps(asdict(self))

    @property
    def world(self) -> int:
        """Return the number of ranks."""
        return self.nodes * self.nproc


class Worker:
    """One rank."""

    def __init__(self, plan: Plan, rank: int) -> None:
        """Note who this is."""
        self.plan, self.rank, self.local = plan, rank, rank % plan.nproc

    def phase(self, name: str) -> None:
        """Write where this rank is."""
        (Path(self.plan.folder) / f"phase-{self.rank}").write_text(name, encoding="utf-8")

    def run(self) -> None:
        """Measure everything and hand the records round."""
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
        """Meet the other ranks; the store is kept, to hand the records round."""
        patience = timedelta(seconds=self.plan.seconds)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.store = dist.TCPStore(
            address, port, self.plan.world, self.rank == 0, patience, wait_for_workers=False
        )
        dist.init_process_group(
            "nccl" if self.plan.cuda else "gloo",
            store=dist.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.plan.world,
            timeout=patience,
        )

    def collectives(self, bench: Bench, dist: Any) -> list[Row]:
        """Measure inside the node, on all nodes at once, and then over the gang."""
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
        """Gather what this rank saw; NCCL's own log tells what it sent over."""
        log = ""
        with contextlib.suppress(OSError, KeyError):
            log = Path(os.environ["NCCL_DEBUG_FILE"]).read_text(errors="replace")
        inside, across, network = transports(log, self.plan.node_rank, self.plan.nproc)
        name, card = f"CPU {self.local}", "CPU"
        if self.plan.cuda:
            properties = torch.cuda.get_device_properties(device)
            name, card = f"GPU {self.local} GPU-{properties.uuid}", str(properties.name)
        return Record(
            rank=self.rank,
            node_rank=self.plan.node_rank,
            pod=self.plan.pod,
            node=self.plan.node,
            device=name,
            card=card,
            tflops=round(tflops, 3),
            inside=tuple(sorted(inside)),
            across=tuple(sorted(across)),
            network=network,
            rows=tuple(rows) if self.local == 0 else (),
            pairs=tuple(pairs),
        )

    def report(self, own: Record) -> None:
        """Hand the records round through the store; rank 0 stays until all have them."""
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
    Worker(Plan(**json.loads(sys.argv[1])), int(os.environ["RANK"])).run()
    sys.stdout.flush()
    os._exit(0)  # what is left of NCCL would only delay the end

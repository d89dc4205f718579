"""Run the measurement on the GPUs of this node, one process per GPU, within a deadline."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from launchers import PACKAGE
from launchers.config.rank import Place
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import environment
from launchers.gang.peer_monitor import PeerMonitor
from launchers.preflight.measurements import Record, behind, record_of
from launchers.preflight.worker import CollectivePlan
from launchers.system.failures import tail, verdict
from launchers.system.process import Child
from launchers.system.training_end import signal_name

CASCADE_SECONDS = 3.0
"""Time after the first exit for exits of other ranks, or news of a lost peer, to arrive."""
GRACE_SECONDS = 0.5
_LOOK = "check the logs in preflight/ of the attempt's folder; cordon the node if it fails again"


def measure(
    plan: CollectivePlan, place: Place, port: int, env: Mapping[str, str], peers: PeerMonitor
) -> list[Record]:
    """Measure and return the records of all ranks; leaves no process.

    ``port`` is rank 0's for this measurement: the master port is torchrun's.

    Raises:
        LaunchError: PREFLIGHT naming the rank that failed or the ranks that hang; the code of a
            cascade if a peer was lost.
    """
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    stop = time.monotonic() + plan.seconds
    children = {
        rank: Child(
            [sys.executable, "-m", "launchers.preflight.worker", plan.argument()],
            _environment(env, place, plan, rank, port),
            folder / f"rank-{rank}.log",
        )
        for rank in range(plan.node_rank * plan.nproc, (plan.node_rank + 1) * plan.nproc)
    }
    try:
        _await(children, plan, peers, stop)
    finally:
        for child in children.values():
            child.end(GRACE_SECONDS)
    return [record_of(fields) for fields in json.loads(Path(plan.result).read_text("utf-8"))]


def _environment(
    env: Mapping[str, str], place: Place, plan: CollectivePlan, rank: int, port: int
) -> dict[str, str]:
    base = environment(env, place, nproc=plan.nproc, package=PACKAGE)
    return base | {
        "RANK": str(rank),
        "MASTER_ADDR": place.master_addr,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_DEBUG_FILE": str(Path(plan.folder) / f"nccl-{rank}.log"),
    }


def _await(
    children: Mapping[int, Child], plan: CollectivePlan, peers: PeerMonitor, stop: float
) -> None:
    """Wait until all workers have succeeded."""
    while True:
        codes = {rank: child.poll() for rank, child in children.items()}
        if any(codes.values()):
            raise _broken(children, plan, peers)
        if all(code == 0 for code in codes.values()):
            return
        if peers.lost.wait(0.05):
            assert peers.loss is not None
            raise peers.loss.error()
        if time.monotonic() >= stop:
            cause = f"after {plan.seconds} s {behind(_phases(plan), plan.world)}"
            raise LaunchError(Exit.PREFLIGHT, cause, _LOOK, id="preflight-timeout")


def _broken(children: Mapping[int, Child], plan: CollectivePlan, peers: PeerMonitor) -> LaunchError:
    """Return the error of the rank that failed first, not of a cascade."""
    peers.lost.wait(CASCADE_SECONDS)
    cascade = None
    for rank, child in children.items():
        code = child.poll()
        if not code:
            continue
        found = verdict(tail(Path(plan.folder) / f"rank-{rank}.log"), started=False)
        why = (
            found.cause
            if found
            else f"exit {code}"
            if code > 0
            else f"killed by {signal_name(-code)}"
        )
        where = f"rank {rank} (GPU {rank % plan.nproc})"
        error = LaunchError(Exit.PREFLIGHT, f"{where}: {why}", _LOOK, id="preflight-worker")
        if found is None or not found.cascade:
            return error
        cascade = cascade or error
    if peers.loss is not None:
        return peers.loss.error()
    assert cascade is not None
    return cascade


def _phases(plan: CollectivePlan) -> dict[int, str]:
    found = {}
    for rank in range(plan.world):
        with contextlib.suppress(OSError):
            found[rank] = (Path(plan.folder) / f"phase-{rank}").read_text(encoding="utf-8")
    return found

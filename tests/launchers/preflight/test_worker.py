"""The measurement with real torch and gloo: two "nodes" on CPU; no GPU is needed."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launchers.config.preflight import from_env
from launchers.preflight.gang_probes import free_port
from launchers.preflight.judge import judge_measurements
from launchers.preflight.measurements import record_of
from launchers.preflight.worker import CollectivePlan
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = needs_training


def plan(folder: Path, node: int, **change: int) -> CollectivePlan:
    sizes: dict[str, Any] = {"nodes": 2, "nproc": 1, "seconds": 60, "matrix": 128, **change}
    return CollectivePlan(
        folder=str(folder / "preflight"),
        result=str(folder / f"records-{node}.json"),
        node_rank=node,
        pod=f"r-node-0-{node}",
        node="here",
        cuda=False,
        all_reduce=(1 << 18, 1 << 20),
        all_to_all=(1 << 18,),
        pair=(1 << 16, 1 << 18),
        **sizes,
    )


@contextlib.contextmanager
def measuring(plans: list[CollectivePlan], **env: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Start one process a node."""
    port, program = str(free_port()), str(Path(__file__).with_name("measuring.py"))
    inside = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    commands = [[str(PYTHON), program, plan.argument(), port] for plan in plans]
    pods = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=inside) for words in commands
    ]
    try:
        yield pods
    finally:
        for pod in pods:
            pod.kill()


def end(pod: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = pod.communicate()
    parsed: dict[str, Any] = json.loads(output.splitlines()[-1])
    return parsed


def test_two_nodes_measure_and_agree(tmp_path: Path) -> None:
    plans = [plan(tmp_path, node) for node in (0, 1)]
    with measuring(plans) as pods:
        first, second = (end(pod) for pod in pods)
    assert first["left"] == second["left"] == []
    assert first["records"] == second["records"]
    records = [record_of(fields) for fields in first["records"]]
    assert [record.pod for record in records] == ["r-node-0-0", "r-node-0-1"]
    rows = [(row.scope, row.op, row.size) for row in records[0].rows]
    assert rows == [
        ("world", "all_reduce", 1 << 18),
        ("world", "all_reduce", 1 << 20),
        ("world", "all_to_all", 1 << 18),
    ]
    assert all(0 < row.gbs < 1000 for row in records[0].rows)
    [pair] = records[0].pairs
    assert (pair.kind, pair.one, pair.other, pair.gbs > 0) == ("network", 0, 1, True)
    assert all(record.tflops > 0 for record in records)
    found = judge_measurements(records, plans[0], from_env({}), {}, adapters=0)
    assert {f.check for f in found} == {"transport", "bandwidth", "pairs", "compute"}


def test_two_processes_of_one_node_measure_the_node(tmp_path: Path) -> None:
    with measuring([plan(tmp_path, 0, nodes=1, nproc=2)]) as [pod]:
        records = [record_of(fields) for fields in end(pod)["records"]]
    assert {row.scope for row in records[0].rows} == {"node"}
    assert records[1].rows == ()
    assert records[0].pairs[0].kind == "node"


def test_a_rank_that_hangs_is_named_at_the_deadline_and_nothing_is_left(tmp_path: Path) -> None:
    """The pod of rank 1 never starts its process: its node is stopped at once."""
    begin = time.monotonic()
    with measuring([plan(tmp_path, node, seconds=10) for node in (0, 1)]) as pods:
        pods[1].send_signal(signal.SIGSTOP)
        found = end(pods[0])
        pods[1].send_signal(signal.SIGKILL)
    assert found["code"] == 80
    assert found["cause"] == "after 10 s rank 1 has not started"
    assert found["left"] == []
    assert time.monotonic() - begin < 30


def test_a_rank_that_breaks_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with measuring([plan(tmp_path, 0, nodes=1, matrix=-1)]) as [pod]:
        found = end(pod)
    assert found["code"] == 80
    assert found["cause"].startswith("rank 0 (GPU 0): RuntimeError: ")
    assert "negative dimension" in found["cause"]
    assert found["left"] == []

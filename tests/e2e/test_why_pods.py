"""`why` on pods that do not run, on a run's files, and on a cluster without its controllers."""

import json
import time
from pathlib import Path

import pytest

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.manifest import KUEUE
from scripts.observe.command import Exit
from tests.e2e import foreign, pausing, standin, volumes
from tests.e2e.cluster.layout import Layout
from tests.e2e.foreign import crds, install
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pausing import Pausing
from tests.e2e.planted import plant
from tests.e2e.see import explained, megatron_dpo
from tests.e2e.space import Space
from tests.e2e.until import until
from tests.scripts.observe.planted import suspended, view
from tests.scripts.why.states import STATES

SILENT = """
import socket, time
server = socket.socket()
server.bind(("", 5000))
server.listen(0)
waiting = [socket.socket() for _ in range(4)]
for each in waiting:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", 5000))
print("full", flush=True)
time.sleep(3600)
"""
"""Program of a registry that takes no connection: its queue of them is full."""
DEAF = "trap '' TERM; while true; do sleep 1; done"


def test_why_says_what_pods_wait_for(empty: Space) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "nowhere"}}
    asks = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    empty.kubectl.apply([{**claim, "spec": {"storageClassName": "none", **asks}}])
    registry = _silent_registry(empty)
    pausing.start(
        empty,
        Pausing(name="absent", pod=_mounting("absent")),
        Pausing(name="unbound", pod=_mounting("nowhere")),
        Pausing(name="deaf", command=("sh", "-c", DEAF), pod={"terminationGracePeriodSeconds": 60}),
    )
    explained(empty, "absent", "claim-missing", Exit.FAILED, "Claim absent")
    explained(empty, "unbound", "claim-unbound", Exit.WAITING, "Claim nowhere", "unbound")
    pausing.start(empty, Pausing(name="slow", image=f"{registry}:5000/none:1"))
    explained(empty, "slow", "pulling", Exit.WAITING, "for rank 0 (slow-node-0-0-")
    ready = ("--for=condition=Ready", "--timeout=60s")
    chosen = "jobset.sigs.k8s.io/jobset-name=deaf"
    empty.kubectl.run("wait", "pods", f"--selector={chosen}", *ready)
    empty.kubectl.run("delete", "pods", f"--selector={chosen}", "--wait=false")
    explained(empty, "deaf", "terminating", Exit.WAITING, "the end of rank 0 (deaf-node-0-0-")
    _forget_pods(empty)


def _mounting(claim: str) -> Object:
    return {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": claim}}]}


def _silent_registry(space: Space) -> str:
    """Start a registry that takes no connection; return its address."""
    image = f"{standin.IMAGE['repository']}:{standin.IMAGE['tag']}"
    container = {"name": "c", "image": image, "command": ["python3", "-c", SILENT]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registry"}, "spec": spec}
    space.kubectl.apply([made])
    space.kubectl.run("wait", "pod/registry", "--for=condition=Ready", "--timeout=60s")
    until("it is full", lambda: "full" in space.kubectl.run("logs", "registry"), seconds=30)
    return str(space.kubectl.get("pod", "registry")["status"]["podIP"])


LATE = """
import os, time
while os.environ.get("JOB_COMPLETION_INDEX") == "1" and not os.path.exists("/workspace/late/go"):
    time.sleep(0.1)
"""
"""Holds each Python of rank 1, so that its launcher does not join the gang."""


def test_why_names_the_rank_that_the_gang_waits_for(queued: Space) -> None:
    late = queued.workspace / "late"
    late.mkdir()
    (late / "sitecustomize.py").write_text(LATE, encoding="utf-8")
    path = {"extraEnv": {"PYTHONPATH": f"/workspace/late:{standin.FOLDER}"}}
    release, run = standin.release(queued, "dpo", path, hold=True)
    release.install()
    try:
        [_, second] = run.running(2)
        said = f"for rank 1 of 2 nodes: rank 1 ({second.name} on {second.node}) is Running."
        explained(queued, "dpo", "ranks-missing", Exit.WAITING, said)
    finally:
        (late / "go").touch()  # without it the pod would not end at SIGTERM
    run.training()
    explained(queued, "dpo", "running", Exit.OK)


def test_why_reads_device_and_step_from_the_files_of_a_run(empty: Space) -> None:
    volumes.claim(empty, "training")
    _preflight(empty.workspace / "runs" / "s1")
    _steps(empty.workspace / "runs" / "s2", age=7200.0)
    _steps(empty.workspace / "runs" / "s3", age=1.0)
    mounted = ("--workspace", str(empty.workspace))
    for run, state, id, fact in (
        (
            "s1",
            "preflight-failed",
            "preflight-failed",
            "s1-node-0-1-x7k2p on away-2), GPU 3: health",
        ),
        ("s2", "stalled", "stalled", "No optimizer step for 2.0 h; one usually takes 12 s"),
        ("s3", "stalled", "training", "step 34 of 107"),
    ):
        # one after the other: the garbage collector removes pods of nodes that do not exist
        plant(empty.kubectl, {run: STATES[state][0]()})
        said = megatron_dpo(empty, "why", run, "--json", *mounted)
        assert said.out, said.err
        first = said.document["reasons"][0]
        assert first["id"] == id and fact in first["sentence"], said.document
    _forget_pods(empty)  # no kubelet would end those of nodes that do not exist


def _forget_pods(space: Space) -> None:
    space.kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")


def _preflight(home: Path) -> None:
    """Write the report of a failed preflight, as rank 1 does."""
    folder = home / "attempts" / "1"
    folder.mkdir(parents=True)
    failed = {"check": "health", "who": "GPU 3", "state": "failed", "seen": "uncorrected errors"}
    report = {"rank": 1, "pod": "p", "node": "n", "findings": [failed]}
    (folder / "preflight-1.json").write_text(json.dumps(report), encoding="utf-8")


def _steps(home: Path, age: float) -> None:
    """Write progress and a row of metrics that is some seconds old."""
    home.mkdir(parents=True)
    now = time.time()
    progress = {
        "state": "running",
        "stage": "train",
        "attempt": 1,
        "updated": now,
        "phases": {"container": now - 9000, "gang": now - 8990},
        "stages": {"train": {"state": "running"}},
        "training": {"step_seconds": 12.0, "eta_seconds": 876.0},
    }
    (home / "progress.json").write_text(json.dumps(progress), encoding="utf-8")
    row = Row(step=34, total=107, attempt=1, time=now - age, seconds=12.0)
    (home / "metrics.jsonl").write_text(f"{rows.line(row)}\n", encoding="utf-8")


def test_why_names_what_is_not_installed(empty: Space, tmp_path: Path) -> None:
    """On an API server of its own, which has no controllers."""
    layout = Layout()
    if not (layout.pki / "ca.crt").exists():
        pytest.skip("the kind backend has no second API server")
    with foreign.api_server(layout, empty.kubectl, tmp_path) as other:
        _create_namespace(other, empty.name)
        config = {"kubeconfig": other.kubeconfig}
        explained(empty, "dpo", "jobset-api-missing", Exit.FAILED, "no JobSet API", **config)
        install(other, crds("jobset"))
        explained(empty, "dpo", "run-not-found", Exit.FAILED, "no run dpo", **config)
        plant(other, {"dpo": view(suspended())})
        label = ("label", "jobset", "dpo", f"{KUEUE}/queue-name=gpu")
        other.run(*label)
        explained(empty, "dpo", "kueue-missing", Exit.FAILED, "queue gpu", **config)
        install(other, crds("kueue"))
        explained(empty, "dpo", "workload-missing", Exit.WAITING, **config)


def _create_namespace(kubectl: Kubectl, name: str) -> None:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kubectl.at("").apply([made])

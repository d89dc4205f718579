"""`why` on pods that do not run, on a run's files, and on a cluster without its controllers."""

from pathlib import Path

import pytest

from scripts.manifest import KUEUE
from scripts.observe.command import Exit
from tests.e2e import foreign, pausing, standin
from tests.e2e.cluster.layout import Layout
from tests.e2e.foreign import crds, install
from tests.e2e.kubectl import Kubectl
from tests.e2e.pausing import Pausing
from tests.e2e.planted import plant
from tests.e2e.see import explained
from tests.e2e.space import Space
from tests.e2e.until import until
from tests.scripts.observe.planted import suspended, view

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
    registry = _silent_registry(empty)
    pausing.start(
        empty,
        Pausing(name="slow", image=f"{registry}:5000/none:1"),
        Pausing(name="deaf", command=("sh", "-c", DEAF), pod={"terminationGracePeriodSeconds": 60}),
    )
    explained(empty, "slow", "pulling", Exit.WAITING, "for rank 0 (slow-node-0-0-")
    ready = ("--for=condition=Ready", "--timeout=60s")
    chosen = "jobset.sigs.k8s.io/jobset-name=deaf"
    empty.kubectl.run("wait", "pods", f"--selector={chosen}", *ready)
    empty.kubectl.run("delete", "pods", f"--selector={chosen}", "--wait=false")
    explained(empty, "deaf", "terminating", Exit.WAITING, "the end of rank 0 (deaf-node-0-0-")
    _forget_pods(empty)


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
    explained(queued, "dpo", "loading", Exit.OK)


def _forget_pods(space: Space) -> None:
    space.kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")


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

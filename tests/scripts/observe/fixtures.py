"""A cluster with a run of two ranks whose workspace is a folder of this machine."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.doctor.api import Api
from tests.scripts.observe import planted
from tests.scripts.observe.planted import RUNNING, Object, condition, jobset, pod, workload
from tests.scripts.observe.server import Cluster, serving

CORE = "/api/v1/namespaces/team"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    home = tmp_path / "workspace" / "runs" / "dpo"
    home.mkdir(parents=True)
    (home / "progress.json").write_text(json.dumps({"state": "running", "stage": "clone"}))
    return tmp_path / "workspace"


def at(run: Object, workspace: Path) -> Object:
    """The JobSet with its workspace in a folder of this machine."""
    for each in planted.container_of(run)["env"]:
        if each["name"] == "DPO_WORKSPACE":
            each["value"] = str(workspace)
    return run


def complete(cluster: Cluster, workspace: Path) -> None:
    completed = condition("Completed", "True", "AllJobsCompleted")
    cluster.put(JOBSETS, at(jobset(completed, terminalState="Completed"), workspace))


@pytest.fixture
def cluster(workspace: Path) -> Cluster:
    made = Cluster()
    made.put(JOBSETS, at(jobset(), workspace))
    made.put(f"{CORE}/pods", pod(0, RUNNING), pod(1, RUNNING))
    made.put(f"{KUEUE}/workloads", workload(of="u-1"))
    made.put(f"{KUEUE}/localqueues", copy.deepcopy(planted.LOCAL_QUEUE))
    return made


@pytest.fixture
def api(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with serving(cluster, tmp_path, monkeypatch) as made:
        yield made

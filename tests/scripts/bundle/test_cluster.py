"""The objects of a run in a bundle: what explains the run stays, a canary never does."""

import base64
import json
from pathlib import Path

import pytest

from scripts.bundle import cluster, command
from tests.scripts.bundle.test_bundle import BASE64, CANARY, CLUSTER, VALUES, planted
from tests.scripts.observe.fixtures import CORE, JOBSETS
from tests.scripts.observe.planted import RUNNING, Object, container_of, event, jobset, pod
from tests.scripts.observe.server import Cluster, serving

OTHER = "PLain-Content-77aa19"
"""A secret of unknown form under an inconspicuous name: only its Secret identifies it."""


def secret(name: str, content: str) -> Object:
    data = {"key": base64.b64encode(content.encode()).decode()}
    return {"kind": "Secret", "metadata": {"name": name}, "data": data}


def run() -> Cluster:
    """A run with a canary in its environment, annotations, events, Secret and log."""
    made = jobset(queue=None)
    reference = {"secretKeyRef": {"name": "hook", "key": "key"}}
    container_of(made)["env"] += [
        {"name": "ANY", "value": f"{CANARY}-in-env"},
        {"name": "DPO_WEBHOOK_URL", "valueFrom": reference},
    ]
    made["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": CANARY}
    leader = pod(0, RUNNING)
    leader["spec"]["volumes"] = [{"name": "code", "secret": {"secretName": "git"}}]
    found = Cluster(groups=["jobset.x-k8s.io"])
    found.put(JOBSETS, made)
    found.put(f"{CORE}/pods", leader)
    found.put(f"{CORE}/secrets", secret("hook", OTHER), secret("git", f"{CANARY}-of-git"))
    found.put(f"{CORE}/secrets", secret("foreign", "of-another-run"))
    pulling = event("Pulling", f"pulling https://u:{CANARY}@registry/i", of="dpo")
    found.put(f"{CORE}/events", pulling)
    lines = ["start", f"HF_TOKEN={CANARY}", f"prints {OTHER}", f"{CANARY}-of-git", "end"]
    found.logs[leader["metadata"]["name"]] = "\n".join(lines).encode()
    return found


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files of a bundle of the run, with the canary in values and files of the run, too."""
    with serving(run(), tmp_path, monkeypatch) as api:
        documents = {**cluster.documents(api, "dpo"), **CLUSTER, "values/0-x.json": VALUES}
    bundle = command.build(planted(tmp_path / "w").home, documents, {})
    return {name: content.decode() for name, content in bundle.files.items()}


def test_no_file_keeps_the_canary(files: dict[str, str]) -> None:
    encoded = base64.b64encode(OTHER.encode()).decode().rstrip("=")
    for name, text in files.items():
        for form in (CANARY, BASE64.rstrip("="), OTHER, encoded):
            assert form not in text, name


def test_what_explains_a_run_stays(files: dict[str, str]) -> None:
    assert json.loads(files["cluster/jobset.json"])["metadata"]["uid"] == "u-1"
    [leader] = json.loads(files["cluster/pods.json"])
    assert leader["status"]["phase"] == "Running"
    assert "pulling" in files["cluster/events.json"]
    log = files["cluster/rank-0.log"].splitlines()
    assert (log[0], log[-1], len(log)) == ("start", "end", 5)
    assert json.loads(files["cluster/secrets/hook.json"])["keys"] == ["key"]
    assert "cluster/secrets/foreign.json" not in files


def test_without_the_right_to_read_secrets_the_rest_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run()
    made.forbidden = {"GET /secrets", "GET /jobs"}
    with serving(made, tmp_path, monkeypatch) as api:
        found = cluster.documents(api, "dpo")
    assert not any(name.startswith("cluster/secrets/") for name in found)
    assert "cluster/missing-permissions.json" in found

"""megatron-dpo doctor on a real cluster: each fault planted, and the line that says it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import foreign, queues, standin
from tests.e2e.api import Object
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.cluster.layout import Layout
from tests.e2e.doctor import Diagnosis, look, without_rules
from tests.e2e.foreign import crds, install
from tests.e2e.kubectl import Kubectl
from tests.e2e.measured import measured
from tests.e2e.merge import merge
from tests.e2e.rights import acting
from tests.e2e.space import Space
from tests.e2e.until import until

REPOSITORY = {"url": "https://git.example.com/x", "ref": "main"}
CODE = {"code": {**REPOSITORY, "existingSecret": "preferences-git"}}


def failed(found: Diagnosis, id: str, subject: str, *facts: str) -> None:
    """Assert that this is the only failed line, with a remedy, and that it contains the facts."""
    assert found.code == 1
    (line,) = found.at("fail")
    assert (line["id"], line["subject"]) == (id, subject)
    assert line["remedy"]
    for fact in facts:
        assert fact in line["found"]


def made(kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def settled(space: Space) -> None:
    """Wait until Kueue has looked at the queue, and pods have an account."""
    account = ("wait", "serviceaccount/default", "--for=create", "--timeout=30s")
    space.kubectl.run(*account)

    def active() -> bool:
        status = space.kubectl.get("localqueue", queues.QUEUE).get("status", {})
        return any(each["type"] == "Active" for each in status.get("conditions", []))

    until("the queue has a state", active, seconds=20)


def test_what_doctor_passes_runs_and_its_name_is_taken_then(queued: Space) -> None:
    settled(queued)
    with measured("megatron-dpo doctor"):
        found = look(queued)
    assert (found.code, found.at("fail"), found.subjects("warn")) == (0, [], ["GPU model", "image"])
    release, run = standin.release(queued, "dpo")
    release.install()
    run.ended()
    failed(look(queued), "release-exists", "run dpo", "deployed")
    assert look(queued, run="other").code == 0


def test_too_few_nodes(queued: Space) -> None:
    settled(queued)
    assert "nodes for node" in look(queued, {"nodeSelector": {"pool": "none"}}).subjects("fail")
    found = look(queued, {"nodes": 4, "kueue": {"topology": {"mode": "none", "key": ""}}})
    failed(found, "nodes-too-few", "nodes for node", "3 of 4 pods")


def test_a_missing_secret_and_a_missing_key(queued: Space) -> None:
    settled(queued)
    failed(look(queued, CODE), "secret-missing", "secret preferences-git")
    value = "c2VjcmV0LXZhbHVl"
    queued.kubectl.apply([made("Secret", "preferences-git", data={"password": value})])
    found = look(queued, CODE)
    failed(found, "secret-key-missing", "secret preferences-git", "token", "password")
    assert value not in json.dumps(found.lines)
    queued.kubectl.apply([made("Secret", "preferences-git", data={"token": value})])
    assert look(queued, CODE).code == 0


@pytest.mark.level("baseline")
def test_a_namespace_that_does_not_admit_the_fabric(queued: Space) -> None:
    settled(queued)
    failed(look(queued), "pods-refused", "pods node", "violates PodSecurity", "IPC_LOCK")
    tcp = {"network": {"profile": "tcp", "resourceName": ""}}
    assert look(queued, tcp).code == 0


def test_a_resource_quota_that_is_too_small(queued: Space) -> None:
    settled(queued)
    hard = {"requests.nvidia.com/gpu": "8"}
    queued.kubectl.apply([made("ResourceQuota", "team", spec={"hard": hard})])
    failed(look(queued), "resource-quota-too-small", "ResourceQuota team", "needs 16")


def test_a_user_who_may_do_little_gets_a_line_for_each_lack(queued: Space) -> None:
    settled(queued)
    queued.kubectl.apply([made("ServiceAccount", "guest")])
    config = acting(queued, "guest")
    found = look(queued, kubeconfig=config)
    assert found.code == 1
    assert set(found.ids("fail")) == {"permission-missing"}
    assert "permission create jobsets.jobset.x-k8s.io" in found.subjects("fail")
    unseen = [line for line in found.at("warn") if line["id"].endswith("-unchecked")]
    assert {"nodes", "claim training", "JobSet dry run"} <= {each["subject"] for each in unseen}
    assert all("forbidden" in each["found"] for each in unseen if each["subject"] != "GPU model")


def test_an_old_crd_is_named_by_the_fields_that_it_drops(
    cluster: Cluster, empty: Space, tmp_path: Path
) -> None:
    """On an API server of its own: the CRD of the tests' cluster stays as it is."""
    layout = Layout()
    if not (layout.pki / "ca.crt").exists():
        pytest.skip("the kind backend has no second API server")
    (crd,) = without_rules(crds("jobset"))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules = spec["properties"]["failurePolicy"]["properties"]["rules"]["items"]
    del rules["properties"]["onJobFailureMessagePatterns"]
    del spec["properties"]["replicatedJobs"]["items"]["properties"]["dependsOn"]
    unqueued = {"kueue": {"queue": "", "topology": {"mode": "none", "key": ""}}}
    with foreign.api_server(layout, empty.kubectl, tmp_path) as other:
        install(other, [crd])
        until("the schema of JobSet is published", lambda: published(other), seconds=30)
        found = look(empty, unqueued, kubeconfig=other.kubeconfig)
        jobs = look(
            empty, merge(unqueued, {"stages": {"placement": "jobs"}}), kubeconfig=other.kubeconfig
        )
    for each, lost in ((found, "onJobFailureMessagePatterns"), (jobs, "dependsOn")):
        (line,) = (line for line in each.at("fail") if line["id"] == "jobset-crd-drops-fields")
        assert lost in line["found"]


def published(kubectl: Kubectl) -> bool:
    """Return whether the OpenAPI document of JobSet is there: it follows the CRD by a second."""
    return "jobset.x-k8s.io/v1alpha2" in kubectl.run("get", "--raw", "/openapi/v3")

"""Each fault of a cluster, planted alone in a healthy one: the one line that says it."""

import copy
from typing import Any

import pytest

from scripts.doctor.admission import check_network
from scripts.doctor.api import Answer
from scripts.doctor.command import examine
from scripts.doctor.findings import Finding, Level
from tests.scripts.doctor import healthy
from tests.scripts.doctor.faults import FAULTS, HELM
from tests.scripts.doctor.healthy import document, found, objects, release, snapshot


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_failed_line_with_a_remedy(name: str) -> None:
    plant, sets, subject, id, fact = FAULTS[name]
    there = copy.deepcopy(objects())
    plant(there)
    for item in there:
        if item["metadata"]["name"].startswith("sh.helm"):
            item["metadata"]["labels"] = HELM
    chosen = release(*sets)
    failed = [each for each in examine(chosen, snapshot(chosen, there)) if each.level is Level.FAIL]
    (line,) = (each for each in failed if each.id == id)
    assert (line.subject, fact in line.found) == (subject, True)
    assert all(each.remedy for each in failed)


def test_a_healthy_cluster_has_nothing_to_say() -> None:
    findings = examine(release(), snapshot(release()))
    assert [each for each in findings if each.level is not Level.OK] == []


def test_an_old_crd_is_detected_by_its_schema_in_any_version() -> None:
    def stale(*dropped: str) -> Finding:
        schema = healthy.healthy_schema(release())
        spec = schema["properties"]["spec"]["properties"]
        places = {"dependsOn": spec["replicatedJobs"]}
        places["onJobFailureMessagePatterns"] = spec["failurePolicy"]["properties"]["rules"]
        for name in dropped:
            del places[name]["items"]["properties"][name]
        findings = examine(release(), snapshot(release(), schema=document(schema)))
        return next(each for each in findings if each.subject == "JobSet CRD")

    both = stale("onJobFailureMessagePatterns", "dependsOn")
    assert (both.level, both.id) == (Level.FAIL, "jobset-crd-drops-fields")
    assert "spec.failurePolicy.rules[].onJobFailureMessagePatterns" in both.found
    assert "dependsOn" not in both.found
    one = stale("dependsOn")
    assert (one.level, "dependsOn" in one.found) == (Level.WARN, True)


@pytest.mark.parametrize(
    ("served", "id"),
    [
        ({"kueue.x-k8s.io": "v1beta2"}, "jobset-api-missing"),
        ({"jobset.x-k8s.io": "v1alpha2", "kueue.x-k8s.io": "v1beta1"}, "kueue-api-version"),
    ],
)
def test_an_api_that_is_not_served_is_named(served: dict[str, str], id: str) -> None:
    findings = examine(release(), snapshot(release(), groups=healthy.groups(served)))
    assert [e.id for e in findings if e.level is Level.FAIL and "-api-" in e.id] == [id]


def test_a_jobset_that_kueue_leaves_alone_is_refused() -> None:
    findings = examine(release(), snapshot(release(), jobset=found({"spec": {}})))
    assert [e.id for e in findings if e.level is Level.FAIL] == ["jobset-not-queued"]


@pytest.mark.parametrize(
    ("status", "message", "level", "remedy"),
    [
        (403, 'pods "x" is forbidden: violates PodSecurity "baseline"', "fail", "label the namesp"),
        (403, 'pods "x" is forbidden: exceeded quota: team', "fail", "ResourceQuota"),
        (403, 'pods is forbidden: User "eve" cannot create resource "pods"', "warn", ""),
        (500, "failed calling webhook x: no endpoints", "fail", "administrator restarts"),
    ],
)
def test_what_admission_says_of_a_pod(status: int, message: str, level: str, remedy: str) -> None:
    answer = Answer(status=status, content={"message": message})
    findings = examine(release(), snapshot(release(), pods={"node": answer}))
    line = next(each for each in findings if each.subject == "pods node")
    assert (line.level.value, message in line.found) == (level, True)
    assert remedy in line.remedy


@pytest.mark.parametrize(("name", "level"), [("istio-proxy", "fail"), ("fuse", "warn")])
def test_a_container_that_admission_adds_may_keep_the_run_from_its_end(
    name: str, level: str
) -> None:
    pod = release().gang.pod
    added = {**pod, "containers": [*pod["containers"], {"name": name}]}
    findings = examine(release(), snapshot(release(), pods={"node": found({"spec": added})}))
    assert [e.level.value for e in findings if e.id == "pods-injected"] == [level]


OWN: dict[str, Any] = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "megatron-dpo"}}}


@pytest.mark.parametrize(
    ("ingress", "sets", "ids"),
    [
        ([], (), ["network-policy-closes"]),
        (
            [{"from": [{"podSelector": {"matchLabels": {"app": "x"}}}]}],
            (),
            ["network-policy-closes"],
        ),
        ([{"ports": [{"port": 443}]}], (), ["network-policy-closes"]),
        ([], ("networkPolicy.enabled=true", "networkPolicy.egress[0].ports[0].port=443"), []),
        ([{"from": [OWN]}], (), []),
        ([{"from": [{"namespaceSelector": {}}]}], (), []),
        ([{}], (), []),
    ],
)
def test_a_policy_that_keeps_the_ranks_apart_is_named(
    ingress: list[Any], sets: tuple[str, ...], ids: list[str]
) -> None:
    denied = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress}
    there = [*objects(), healthy.named("NetworkPolicy", "deny", spec=denied)]
    chosen = release(*sets)
    assert [e.id for e in check_network(chosen, snapshot(chosen, there))] == ids

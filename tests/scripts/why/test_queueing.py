"""Messages of Kueue 0.19.2 as the cluster has them, of which `why` names a fact."""

from typing import Any

import pytest

from scripts.observe.view import View
from scripts.why.reasons import explain
from tests.scripts.observe import planted
from tests.scripts.observe.planted import LOCAL_QUEUE, condition, evicted, pending, workload
from tests.scripts.why.admission import admitted
from tests.scripts.why.queueing import queue, waits

SAID = "Can't submit new workloads to clusterQueue"
INACTIVE = condition("Active", "False", "ClusterQueueIsInactive", SAID)
UNREADABLE: dict[str, Any] = {"local": {**LOCAL_QUEUE, "status": {"conditions": [INACTIVE]}}}
UNREADABLE["get_clusterqueues"] = planted.refused()
"""A LocalQueue whose ClusterQueue is not active, and may not be read."""


def only(made: View) -> tuple[str, str]:
    [found] = explain(made)
    return found.id, found.sentence


def test_a_stopped_local_queue_is_recognized_without_the_right_to_read_it() -> None:
    item = pending("LocalQueue gpu is inactive", "Inadmissible")
    id, said = only(waits(item, get_localqueues=planted.refused()))
    assert id == "local-queue-stopped" and "stopPolicy not readable" in said


def test_who_may_not_read_a_cluster_queue_is_told_what_its_local_queue_implies() -> None:
    item = pending("ClusterQueue gpus is inactive", "Inadmissible")
    id, said = only(waits(item, **UNREADABLE))
    assert id == "cluster-queue-inactive"
    assert "stopped or incomplete, which you may not read" in said


@pytest.mark.parametrize(
    ("message", "flavors"),
    [
        ("a100.", "a100"),
        ("a100.x,h100.", "a100.x,h100"),
        ("a100, references missing AdmissionCheck(s): c.", "a100"),
    ],
)
def test_a_queue_without_its_flavor_names_it(message: str, flavors: str) -> None:
    item = pending("ClusterQueue gpus is inactive", "Inadmissible")
    said = f"Can't admit new workloads: references missing ResourceFlavor(s): {message}"
    inactive = condition("Active", "False", "FlavorNotFound", said)
    cluster = {**queue("gpus"), "status": {"conditions": [inactive]}}
    id, sentence = only(waits(item, local=LOCAL_QUEUE, cluster=cluster))
    assert id == "flavor-missing" and sentence.endswith(f"does not exist: {flavors}.")


def test_nodes_that_a_topology_excludes_are_named() -> None:
    item = pending(
        'couldn\'t assign flavors to pod set node: topology "racks" allows to fit only 1 out of 4 '
        'pod(s). Total nodes: 3; excluded: resource "nvidia.com/gpu": 2; couldn\'t assign flavors '
        "to pod set b: x"
    )
    id, said = only(waits(item))
    assert id == "topology-does-not-fit"
    assert said.endswith('4 pod(s). Total nodes: 3; excluded: resource "nvidia.com/gpu": 2.')


@pytest.mark.parametrize(
    ("count", "words"), [(1, "preempting 1 workload for this run; its pods"), (2, "2 workloads")]
)
def test_one_victim_of_a_preemption_is_one(count: int, words: str) -> None:
    item = pending(f"insufficient. Pending the preemption of {count} workload(s)")
    assert words in only(waits(item))[1]


@pytest.mark.parametrize(
    ("listed", "check", "why"),
    [
        ('AdmissionCheck in Rejected state: "gate" (zone is closed)', "gate", ": zone is closed."),
        ('AdmissionCheck in Rejected state: "gate"', "gate", "run."),
        ('AdmissionChecks in Rejected state: "a" (x (y)); "b" (z)', "a", ": x (y)."),
    ],
)
def test_a_rejection_is_read_from_the_deactivation(listed: str, check: str, why: str) -> None:
    said = f"The workload is deactivated due to {listed}"
    item = evicted("DeactivatedDueToAdmissionCheck", said, active=False)
    [found] = explain(waits(item))
    assert found.id == "admission-check-rejected"
    assert f"check {check} rejected" in found.sentence and found.sentence.endswith(why)
    assert "megatron-dpo resume dpo" in found.remedy


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"requeueAt": "2026-11-18T10:28:40Z"}, "in 2 min."),
        ({"count": 1, "requeueAt": "2026-11-18T10:28:40Z"}, "in 2 min, after 1 eviction."),
    ],
)
def test_a_delay_counts_evictions_only_where_there_were_some(
    state: dict[str, Any], words: str
) -> None:
    check = {"name": "gate", "state": "Retry", "message": ""}
    reserved = condition("QuotaReserved", "True", "QuotaReserved")
    found = explain(waits(workload(reserved, admissionChecks=[check], requeueState=state)))
    assert [each.id for each in found] == ["admission-check-retry", "requeue-backoff"]
    assert found[1].sentence.endswith(words)


LATE, SOON = "2026-11-18T08:26:45Z", "2026-11-18T10:25:40Z"
"""Two hours, and one minute, before NOW."""
NODE = "couldn't assign flavors to pod set node: "
LEVEL = f"{NODE}no topology domains at level: example.com/rack"
QUOTA = "insufficient unused quota for nvidia.com/gpu in flavor b, 8 more needed"
MOST = (
    "insufficient quota for nvidia.com/gpu in flavor a, previously considered podsets requests "
    "(0) + current podset request (16) > maximum capacity (8)"
)


TAINTED = (
    f'{NODE}topology "default" doesn\'t allow to fit any of 2 pod(s). Total nodes: 3; excluded: '
    'taint "nvidia.com/gpu=present:NoSchedule": 3'
)


@pytest.mark.parametrize("reason", ["TopologyPlacementFailed", "Pending"])
@pytest.mark.parametrize(
    ("message", "said", "remedy"),
    [
        (LEVEL, "at level: example.com/rack", "label example.com/rack"),
        (TAINTED, "present:NoSchedule", "Set tolerations"),
    ],
)
def test_a_topology_of_no_node_for_the_pods_is_nothing_to_wait_for(
    reason: str, message: str, said: str, remedy: str
) -> None:
    [found] = explain(waits(pending(message, reason)))
    assert found.id == "topology-does-not-fit" and said in found.sentence
    assert "Waiting is no use" in found.remedy and remedy in found.remedy


@pytest.mark.parametrize(
    ("reason", "id"),
    [
        ("TopologyPlacementFailed", "topology-does-not-fit"),
        ("NoMatchingFlavor", "inadmissible"),
        ("Misconfigured", "inadmissible"),
        ("ExceedsMaxQuota", "inadmissible"),
        ("WaitingForQuota", "queued"),
        ("AdmissionGated", "inadmissible"),
        ("Inadmissible", "inadmissible"),
        ("Pending", "queued"),
    ],
)
def test_other_words_are_judged_by_their_reason(reason: str, id: str) -> None:
    found, said = only(waits(pending("words of a later release", reason)))
    assert found == id and "words of a later release" in said


NO_TAS = "failed to assign flavors to pod set node: no TAS flavor assigned"
RANGE = "resources didn't satisfy LimitRange constraints: [x]"
HERE: dict[str, Any] = {"local": LOCAL_QUEUE}


@pytest.mark.parametrize(
    ("message", "reason", "answers", "id"),
    [
        # started again after Kueue's message
        ("LocalQueue gpu is inactive", "Inadmissible", {}, "queued"),
        ("ClusterQueue gpus is stopped", "Inadmissible", {}, "queued"),
        # being deleted, or missing
        ("LocalQueue gpu is terminating or missing", "", HERE, "local-queue-missing"),
        ("ClusterQueue gpus is terminating or missing", "", HERE, "cluster-queue-missing"),
        ("ClusterQueue gpus doesn't exist", "", UNREADABLE, "cluster-queue-missing"),
        # waiting is of use where a flavor is only short of quota
        (NO_TAS, "", {}, "inadmissible"),
        ("resources validation failed: [x]", "Pending", {}, "inadmissible"),
        (RANGE, "Pending", {}, "inadmissible"),
        ("Workload requires preemption, but it's gated", "AdmissionGated", {}, "queued"),
        (f"{NODE}flavor a doesn't match node affinity, {QUOTA}", "Pending", {}, "quota-short"),
        (f'{NODE}Flavor "a" does not contain the requested level, {QUOTA}', "", {}, "quota-short"),
        (f"{NODE}{MOST}, {QUOTA}", "", {}, "quota-short"),
    ],
)
def test_a_message_is_read_with_the_queues(
    message: str, reason: str, answers: dict[str, Any], id: str
) -> None:
    assert only(waits(pending(message, reason), **answers))[0] == id


def test_what_one_pod_set_never_gets_is_named_beside_what_another_waits_for() -> None:
    said = f"couldn't assign flavors to pod set a: {QUOTA}; {NODE}{MOST}"
    found = [each.id for each in explain(waits(pending(said)))]
    assert found == ["quota-exceeds-maximum", "quota-short"]


def test_an_admitted_run_is_late_after_minutes_only() -> None:
    for when, id in ((LATE, "admitted-suspended"), (SOON, "pods-awaited")):
        assert only(waits(admitted(when)))[0] == id
    for when, is_late in ((LATE, True), (SOON, False)):
        [found] = explain(planted.view(planted.jobset(), workloads=[admitted(when)]))
        assert found.id == "pods-awaited" and ("log of its controller" in found.remedy) == is_late
    elsewhere = admitted(LATE, clusterName="worker-1")
    assert only(waits(elsewhere))[0] == "runs-elsewhere"


def test_an_evicted_run_whose_quota_is_still_held_says_so() -> None:
    item = evicted("PodsReadyTimeout", "Exceeded the PodsReady timeout team/x")
    item["status"]["admission"] = workload(holds=16)["status"]["admission"]
    item["status"]["conditions"][1]["lastTransitionTime"] = LATE
    id, said = only(waits(item))
    assert id == "evicted-pods-ready-timeout"
    assert "team/x; its quota is still held for 120 min, until its pods have ended" in said


def test_a_run_in_another_cluster_is_not_awaited_here() -> None:
    item = workload(holds=16, clusterName="worker-1")
    for ready, said in ((1, "all its pods are ready"), (0, "not ready yet")):
        run = planted.jobset(replicatedJobsStatus=[{"name": "node", "ready": ready}])
        [found] = explain(planted.view(run, workloads=[item]))
        assert found.id == "runs-elsewhere" and "context of worker-1" in found.remedy
        assert "worker-1" in found.sentence and said in found.sentence

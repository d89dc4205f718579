"""States of a run that waits for Kueue.

Messages are those of the controllers' sources: Kueue 0.19.2, JobSet 0.12.0, Kubernetes 1.34.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from scripts.doctor.api import Answer
from scripts.manifest import KUEUE
from scripts.observe.view import View
from tests.scripts.observe import planted
from tests.scripts.observe.planted import GPU, Object, condition, listed, pending, suspended
from tests.scripts.why.planted import States

ASSIGN = "couldn't assign flavors to pod set node: "
SHORT = f"{ASSIGN}insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"
PREEMPTED = (
    "Preempted to accommodate a workload (UID: uid-jobset-high-9, JobUID: j9) due to "
    "prioritization in the ClusterQueue; preemptor path: /gpus; preemptee path: /gpus"
)


def labelled(name: str, value: str) -> Object:
    made = suspended()
    made["metadata"]["labels"][f"{KUEUE}/{name}"] = value
    return made


def waits(item: Object, **fields: Any) -> View:
    return planted.view(suspended(), workloads=[item], **fields)


def blocked(message: str, reason: str, **answers: Any) -> View:
    return waits(pending(message, reason), **answers)


def queue(kind: str, **spec: Any) -> Object:
    return {"metadata": {"name": kind}, "spec": {"clusterQueue": "gpus", **spec}}


def without(reason: str, missing: str) -> Object:
    """A ClusterQueue that is inactive, since it refers to something that does not exist."""
    said = f"Can't admit new workloads: references missing {missing}"
    return {**queue("gpus"), "status": {"conditions": [condition("Active", "False", reason, said)]}}


def quota_of(gpus: int) -> dict[str, Answer]:
    entry = {"name": GPU, "nominalQuota": gpus}
    group = {"coveredResources": [GPU], "flavors": [{"name": "a100", "resources": [entry]}]}
    entrances = [
        {"metadata": {"name": "gpu", "namespace": space}, "spec": {"clusterQueue": "gpus"}}
        for space in ("team", "vision")
    ]
    return {
        "list_clusterqueues": listed([{**queue("gpus"), "spec": {"resourceGroups": [group]}}]),
        "list_localqueues_everywhere": listed(entrances),
    }


def asks(gpus: int, item: Object) -> Object:
    container = {"resources": {"requests": {GPU: str(gpus)}}}
    template = {"spec": {"containers": [container]}}
    item["spec"]["podSets"] = [{"name": "node", "count": 1, "template": template}]
    return item


def check(state: str, said: str) -> Object:
    made = {"name": "capacity", "state": state, "message": said}
    reserved = condition("QuotaReserved", "True", "QuotaReserved")
    return planted.workload(reserved, admissionChecks=[made])


ENDED = condition("Finished", "True", "Succeeded", "Job ended")
FIFTH = {"metadata": {"name": "jobset-dpo-1"}, "positionInClusterQueue": 4}
STATES: States = {
    "suspended": (lambda: planted.view(suspended(queue=None)), "suspended"),
    "kueue-missing": (
        lambda: planted.view(
            suspended(), groups=["jobset.x-k8s.io"], list_workloads=planted.refused(404)
        ),
        "queue gpu",
    ),
    "priority-class-missing": (
        lambda: planted.view(
            labelled("priority-class", "urgent"), get_workloadpriorityclasses=planted.refused(404)
        ),
        "WorkloadPriorityClass urgent",
    ),
    "workload-finished": (
        lambda: waits(planted.workload(ENDED, holds=16)),
        "Kueue takes the run for ended (Job ended)",
    ),
    "workload-missing": (lambda: planted.view(suspended()), "no Workload for the run for 2.0 h"),
    "local-queue-missing": (
        lambda: blocked(
            "LocalQueue gpu doesn't exist", "Misconfigured", get_localqueues=planted.refused(404)
        ),
        "no LocalQueue gpu",
    ),
    "local-queue-stopped": (
        lambda: blocked(
            "LocalQueue gpu is stopped", "Suspended", local=queue("gpu", stopPolicy="Hold")
        ),
        "stopPolicy Hold",
    ),
    "cluster-queue-missing": (
        lambda: blocked(
            "ClusterQueue gpus doesn't exist",
            "Misconfigured",
            get_clusterqueues=planted.refused(404),
        ),
        "ClusterQueue gpus, which does not exist",
    ),
    "cluster-queue-stopped": (
        lambda: blocked(
            "ClusterQueue gpus is stopped",
            "Suspended",
            cluster=queue("gpus", stopPolicy="HoldAndDrain"),
        ),
        "stopPolicy HoldAndDrain",
    ),
    "cluster-queue-inactive": (
        lambda: blocked(
            "ClusterQueue gpus is inactive",
            "Suspended",
            cluster=without("AdmissionCheckNotFound", "AdmissionCheck(s): capacity."),
        ),
        "missing AdmissionCheck(s): capacity",
    ),
    "quota-short": (
        lambda: waits(
            asks(16, pending(SHORT, "WaitingForQuota")),
            **quota_of(24),
            left={"uid-jobset-big-2": 5400.0, "uid-jobset-vis-3": 9000.0},
            others=[
                planted.workload(name="jobset-big-2", holds=16),
                planted.workload(name="jobset-vis-3", space="vision", holds=8),
                asks(8, pending(SHORT, name="jobset-old-4", created="2026-11-18T07:00:00Z")),
            ],
        ),
        "8 more of nvidia.com/gpu needed in flavor a100; big holds 16, vision/vis holds 8.",
    ),
    "flavor-missing": (
        lambda: blocked(
            "ClusterQueue gpus is inactive",
            "Inadmissible",
            cluster=without("FlavorNotFound", "ResourceFlavor(s): a100."),
        ),
        "does not exist: a100.",
    ),
    "admission-check-rejected": (
        lambda: waits(check("Rejected", "no capacity in any zone")),
        "capacity rejected the run: no capacity in any zone",
    ),
    "admission-check-retry": (
        lambda: waits(check("Retry", "Reset to Pending after eviction. Previously: Retry")),
        "capacity failed and will be tried again",
    ),
    "admission-check-pending": (
        lambda: waits(check("Pending", "")),
        "admission check capacity has not passed yet",
    ),
    "requeue-backoff": (
        lambda: waits(
            planted.evicted(
                "PodsReadyTimeout",
                "Exceeded the PodsReady timeout team/jobset-dpo-1",
                requeueState={"count": 3, "requeueAt": "2026-11-18T10:28:40Z"},
            )
        ),
        "in 2 min, after 3 evictions",
    ),
    "evicted-preempted": (
        lambda: waits(
            planted.evicted("Preempted", PREEMPTED),
            others=[planted.workload(name="jobset-high-9", space="vision", holds=16)],
        ),
        "by vision/high, due to prioritization in the ClusterQueue",
    ),
    "queued": (
        lambda: waits(
            pending("Workload no longer fits after processing another workload"),
            list_pendingworkloads=listed([FIFTH]),
        ),
        "number 5 waiting in the ClusterQueue: Workload no longer fits",
    ),
}
MIGRATED = planted.evicted("FlavorMigration", "to flavor h100")
STATES["evicted"] = (lambda: waits(MIGRATED), "FlavorMigration")
PENDING = {
    "namespace-not-selected": (
        "Misconfigured",
        "workload namespace doesn't match ClusterQueue selector",
        "namespace team",
    ),
    "quota-uncovered": (
        "Misconfigured",
        f"{ASSIGN}resource rdma/hca unavailable in ClusterQueue",
        "no quota for rdma/hca",
    ),
    "quota-exceeds-maximum": (
        "ExceedsMaxQuota",
        f"{ASSIGN}insufficient quota for nvidia.com/gpu in flavor a100, previously considered "
        "podsets requests (0) + current podset request (16) > maximum capacity (8)",
        "asks for 16 of nvidia.com/gpu, and flavor a100 never has more than 8",
    ),
    "preempting": (
        "WaitingForPreemptedWorkloads",
        f"{SHORT}. Pending the preemption of 2 workload(s)",
        "preempting 2 workloads",
    ),
    "topology-does-not-fit": (
        "TopologyPlacementFailed",
        f'{ASSIGN}topology "default" allows to fit only 1 out of 2 pod(s). Total nodes: 3; '
        "excluded: resource nvidia.com/gpu: 2",
        "allows to fit only 1 out of 2 pod(s)",
    ),
    "flavor-mismatch": (
        "NoMatchingFlavor",
        f"{ASSIGN}untolerated taint {{nvidia.com/gpu present NoSchedule <nil>}} in flavor a100",
        "untolerated taint",
    ),
    "pods-ready-blocked": (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
        "waitForPodsReady",
    ),
    "topology-level-missing": (
        "NoMatchingFlavor",
        f'{ASSIGN}Flavor "a100" does not contain the requested level',
        'Flavor "a100" does not contain the requested level',
    ),
    "inadmissible": (
        "NoMatchingFlavor",
        f"{ASSIGN}flavor a100 is of another kind",
        "(NoMatchingFlavor): couldn't assign flavors to pod set node: flavor a100 is of another",
    ),
}
"""By id: Kueue's reason and message, and the fact of it."""
EVICTED = {
    "evicted-pods-ready-timeout": ("PodsReadyTimeout", "Exceeded the PodsReady timeout team/x"),
    "evicted-admission-check": ("AdmissionCheck", "At least one admission check is false"),
    "evicted-queue-stopped": ("ClusterQueueStopped", "The ClusterQueue is stopped"),
    "evicted-node-failures": ("NodeFailures", "Workload was evicted due to node failures: node-2"),
}
"""By id: Kueue's reason and message."""


def message(build: Callable[[str, str], Object], one: str, other: str) -> View:
    return waits(build(one, other))


SUM = "insufficient quota for nvidia.com/gpu in flavor a100, request > maximum capacity (24 > 16)"
OLD = [
    ("quota-exceeds-maximum", partial(message, pending, f"{ASSIGN}{SUM}", "Pending"), "asks for 24")
]
"""Words of Kueue 0.14."""
STATES |= {
    id: (partial(message, pending, said, reason), fact)
    for id, (reason, said, fact) in PENDING.items()
}
STATES |= {id: (partial(message, planted.evicted, *row), row[-1]) for id, row in EVICTED.items()}

"""States of a run that waits for Kueue.

Messages are those of the controllers' sources: Kueue 0.19.2, JobSet 0.12.0, Kubernetes 1.34.
"""

from typing import Any

from scripts.doctor.api import Answer
from scripts.manifest import KUEUE
from scripts.observe.view import View
from tests.scripts.observe.planted import (
    GPU,
    Object,
    condition,
    evicted,
    listed,
    pending,
    refused,
    suspended,
    view,
    workload,
)
from tests.scripts.why.planted import States

SHORT = (
    "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100, 8 more needed"
)
PREEMPTED = (
    "Preempted to accommodate a workload (UID: uid-jobset-high-9, JobUID: j9) due to "
    "prioritization in the ClusterQueue; preemptor path: /gpus; preemptee path: /gpus"
)


def labelled(name: str, value: str) -> Object:
    """A suspended JobSet with a label of Kueue's."""
    made = suspended()
    made["metadata"]["labels"][f"{KUEUE}/{name}"] = value
    return made


def waits(item: Object, **fields: Any) -> View:
    return view(suspended(), workloads=[item], **fields)


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
    return workload(reserved, admissionChecks=[made])


STATES: States = {
    "suspended": (lambda: view(suspended(queue=None)), "suspended"),
    "kueue-missing": (
        lambda: view(
            suspended(), groups=["jobset.x-k8s.io"], list_workloads=refused(404, "not found")
        ),
        "queue gpu",
    ),
    "priority-class-missing": (
        lambda: view(
            labelled("priority-class", "urgent"),
            get_workloadpriorityclasses=refused(404),
        ),
        "WorkloadPriorityClass urgent",
    ),
    "workload-finished": (
        lambda: waits(workload(condition("Finished", "True", "Succeeded", "Job ended"), holds=16)),
        "Kueue takes the run for ended (Job ended)",
    ),
    "workload-missing": (lambda: view(suspended()), "no Workload for the run for 2.0 h"),
    "local-queue-missing": (
        lambda: waits(
            pending("LocalQueue gpu doesn't exist", "Misconfigured"), get_localqueues=refused(404)
        ),
        "no LocalQueue gpu",
    ),
    "local-queue-stopped": (
        lambda: waits(
            pending("LocalQueue gpu is stopped", "Suspended"), local=queue("gpu", stopPolicy="Hold")
        ),
        "stopPolicy Hold",
    ),
    "cluster-queue-missing": (
        lambda: waits(
            pending("ClusterQueue gpus doesn't exist", "Misconfigured"),
            get_clusterqueues=refused(404),
        ),
        "ClusterQueue gpus, which does not exist",
    ),
    "cluster-queue-stopped": (
        lambda: waits(
            pending("ClusterQueue gpus is stopped", "Suspended"),
            cluster=queue("gpus", stopPolicy="HoldAndDrain"),
        ),
        "stopPolicy HoldAndDrain",
    ),
    "cluster-queue-inactive": (
        lambda: waits(
            pending("ClusterQueue gpus is inactive", "Suspended"),
            cluster=without("AdmissionCheckNotFound", "AdmissionCheck(s): capacity."),
        ),
        "missing AdmissionCheck(s): capacity",
    ),
    "namespace-not-selected": (
        lambda: waits(
            pending("workload namespace doesn't match ClusterQueue selector", "Misconfigured")
        ),
        "namespace team",
    ),
    "quota-uncovered": (
        lambda: waits(
            pending(
                "couldn't assign flavors to pod set node: resource rdma/hca unavailable in "
                "ClusterQueue",
                "Misconfigured",
            )
        ),
        "no quota for rdma/hca",
    ),
    "quota-exceeds-maximum": (
        lambda: waits(
            pending(
                "couldn't assign flavors to pod set node: insufficient quota for nvidia.com/gpu in "
                "flavor a100, previously considered podsets requests (0) + current podset request "
                "(16) > maximum capacity (8)",
                "ExceedsMaxQuota",
            )
        ),
        "asks for 16 of nvidia.com/gpu, and flavor a100 never has more than 8",
    ),
    "preempting": (
        lambda: waits(
            pending(
                f"{SHORT}. Pending the preemption of 2 workload(s)", "WaitingForPreemptedWorkloads"
            )
        ),
        "preempting 2 workloads",
    ),
    "quota-short": (
        lambda: waits(
            asks(16, pending(SHORT, "WaitingForQuota")),
            **quota_of(24),
            left={"uid-jobset-big-2": 5400.0, "uid-jobset-vis-3": 9000.0},
            others=[
                workload(name="jobset-big-2", holds=16),
                workload(name="jobset-vis-3", space="vision", holds=8),
                asks(8, pending(SHORT, name="jobset-old-4", created="2026-11-18T07:00:00Z")),
            ],
        ),
        "8 more of nvidia.com/gpu needed in flavor a100; big holds 16, vision/vis holds 8.",
    ),
    "topology-does-not-fit": (
        lambda: waits(
            pending(
                'couldn\'t assign flavors to pod set node: topology "default" allows to fit only 1 '
                "out of 2 pod(s). Total nodes: 3; excluded: resource nvidia.com/gpu: 2",
                "TopologyPlacementFailed",
            )
        ),
        "allows to fit only 1 out of 2 pod(s)",
    ),
    "flavor-mismatch": (
        lambda: waits(
            pending(
                "couldn't assign flavors to pod set node: untolerated taint {nvidia.com/gpu "
                "present NoSchedule <nil>} in flavor a100",
                "NoMatchingFlavor",
            )
        ),
        "untolerated taint",
    ),
    "flavor-missing": (
        lambda: waits(
            pending("ClusterQueue gpus is inactive", "Inadmissible"),
            cluster=without("FlavorNotFound", "ResourceFlavor(s): a100."),
        ),
        "does not exist: a100.",
    ),
    "pods-ready-blocked": (
        lambda: waits(
            pending(
                "waiting for all admitted workloads to be in PodsReady condition",
                "WaitingForPodsReady",
            )
        ),
        "waitForPodsReady",
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
            evicted(
                "PodsReadyTimeout",
                "Exceeded the PodsReady timeout team/jobset-dpo-1",
                requeueState={"count": 3, "requeueAt": "2026-11-18T10:28:40Z"},
            )
        ),
        "in 2 min, after 3 evictions",
    ),
    "evicted-preempted": (
        lambda: waits(
            evicted("Preempted", PREEMPTED),
            others=[workload(name="jobset-high-9", space="vision", holds=16)],
        ),
        "by vision/high, due to prioritization in the ClusterQueue",
    ),
    "evicted-pods-ready-timeout": (
        lambda: waits(evicted("PodsReadyTimeout", "Exceeded the PodsReady timeout team/x")),
        "Exceeded the PodsReady timeout",
    ),
    "evicted-admission-check": (
        lambda: waits(evicted("AdmissionCheck", "At least one admission check is false")),
        "admission check is false",
    ),
    "evicted-queue-stopped": (
        lambda: waits(evicted("ClusterQueueStopped", "The ClusterQueue is stopped")),
        "The ClusterQueue is stopped",
    ),
    "evicted-node-failures": (
        lambda: waits(evicted("NodeFailures", "Workload was evicted due to node failures: node-2")),
        "node-2",
    ),
    "evicted": (lambda: waits(evicted("FlavorMigration", "to flavor h100")), "FlavorMigration"),
    "queued": (
        lambda: waits(
            pending("Workload no longer fits after processing another workload"),
            list_pendingworkloads=listed(
                [{"metadata": {"name": "jobset-dpo-1"}, "positionInClusterQueue": 4}]
            ),
        ),
        "number 5 waiting in the ClusterQueue: Workload no longer fits",
    ),
}

"""Each state of `why`, planted alone: the view, and a fact that its sentence must contain.

Messages are those of the controllers' sources: Kueue 0.19.2, JobSet 0.12.0, Kubernetes 1.34.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from launchers.metrics.rows import Row
from scripts.observe.view import View
from scripts.observe.workspace import Attempt, PreflightFinding, RunFiles
from scripts.why.holding import STOPPED_BY
from tests.scripts.observe.planted import (
    NOW,
    RUNNING,
    Object,
    condition,
    ended,
    event,
    evicted,
    found,
    jobset,
    listed,
    pending,
    pod,
    refused,
    suspended,
    view,
    waiting,
    workload,
)

BOTH = [pod(0, RUNNING), pod(1, RUNNING)]
SHORT = (
    "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100, 8 more needed"
)
PREEMPTED = (
    "Preempted to accommodate a workload (UID: uid-jobset-high-9, JobUID: j9) due to "
    "prioritization in the ClusterQueue; preemptor path: /gpus; preemptee path: /gpus"
)


def message(code: int, rank: int, cause: str, id: str, **fields: Any) -> str:
    """A termination message."""
    known = {"code": code, "class": "unknown", "stage": "train", "rank": rank, "step": None}
    return json.dumps({**known, "cause": cause, "remedy": "do it", "id": id, **fields})


def ends(code: int, cause: str, id: str, rank: int = 1, **fields: Any) -> View:
    """A gang in which a rank has ended, and its peer after it."""
    peer = message(1, 1 - rank, "rank 1 ended first", "peer-ended")
    states = {rank: ended(code, message(code, rank, cause, id, **fields)), 1 - rank: ended(1, peer)}
    return view(jobset(), pods=[pod(each, states[each]) for each in (0, 1)])


def files(**fields: Any) -> RunFiles:
    return RunFiles(**{"run": "dpo", "exists": True, "now": NOW, **fields})


def progress(**fields: Any) -> Object:
    made = {"state": "running", "stage": "train", "attempt": 1, "updated": NOW}
    return {**made, "phases": {"container": NOW - 60, "gang": NOW - 40}, **fields}


def recorded(document: Object, **fields: Any) -> View:
    """A run whose files are mounted, and no kubeconfig."""
    seen = view(get_jobsets=refused(0, "x"), files=files(**fields, root="/mnt/a b"))
    assert seen.files is not None
    stale = {**document, "updated": NOW - 90}
    return unselected(View(seen.snapshot, replace(seen.files, progress=stale)))


def unselected(seen: View) -> View:
    """The same without a kubeconfig."""
    return View(replace(seen.snapshot, unselected="no kubeconfig"), seen.files)


def row(age: float) -> Row:
    return Row(step=34, total=107, attempt=1, time=NOW - age, seconds=12.0)


def training(age: float) -> RunFiles:
    speed = {"step_seconds": 12.0, "eta_seconds": 876.0}
    stages = {"train": {"state": "running"}}
    return files(progress=progress(training=speed, stages=stages), row=row(age))


def unscheduled(said: str, **answers: Any) -> View:
    said_of = condition("PodScheduled", "False", "Unschedulable", said)
    return view(jobset(), pods=[pod(0, None, said_of), pod(1, None, said_of)], **answers)


def not_created(said: str) -> View:
    refusal = event("FailedCreate", f'Error creating: pods "dpo-node-0-0-" is forbidden: {said}')
    return view(jobset(), events=[refusal])


def stuck(state: Object, *events: Object) -> View:
    return view(jobset(), pods=[pod(0, RUNNING), pod(1, state)], events=events)


def waits(item: Object, **fields: Any) -> View:
    return view(suspended(), workloads=[item], **fields)


def inactive(reason: str, said: str, **notes: str) -> View:
    run = suspended()
    run["metadata"]["annotations"] |= {STOPPED_BY: notes["by"]} if notes else {}
    return view(run, workloads=[evicted(reason, said, active=False)])


def queue(kind: str, **spec: Any) -> Object:
    return {"metadata": {"name": kind}, "spec": {"clusterQueue": "gpus", **spec}}


def check(state: str, said: str) -> Object:
    made = {"name": "capacity", "state": state, "message": said}
    reserved = condition("QuotaReserved", "True", "QuotaReserved")
    return workload(reserved, admissionChecks=[made])


def failed(reason: str, said: str, job: str = "") -> View:
    run = jobset(
        condition("Failed", "True", reason, said), terminalState="Failed", restartsCountTowardsMax=5
    )
    of_job = condition("Failed", "True", "PodFailurePolicy", job)
    job_item = {"metadata": {"name": "dpo-node-0"}, "status": {"conditions": [of_job]}}
    return view(run, jobs=[job_item])


def away(pods: list[Object]) -> View:
    return view(jobset(), pods=pods)


LOST = pod(1, RUNNING, condition("Ready", "False", ""))
GATED = pod(0, None, condition("PodScheduled", "False", "SchedulingGated"))
GATED["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
LEAVING = pod(
    1,
    RUNNING,
    metadata={"deletionTimestamp": "2026-11-18T10:30:00Z", "deletionGracePeriodSeconds": 300},
)
INIT = pod(
    1,
    waiting("PodInitializing"),
    initContainerStatuses=[{"name": "gib", "state": {"running": {}}}],
)
JOINING = '2026-11-18T10:00:00Z INFO rank=0 gang joined peer="rank 2 (p on n)" present=2 of=3\n'


def three_ranks() -> Object:
    made = jobset()
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 3
    return made


STATES: dict[str, tuple[Callable[[], View], str]] = {
    "files-running": (
        lambda: recorded(progress(stage="convert"), heartbeat=NOW - 6),
        "stage convert; its last sign of life is 6.0 s old. No cluster was asked: no kubeconfig.",
    ),
    "files-silent": (
        lambda: recorded(progress(), heartbeat=NOW - 90, row=row(90)),
        "in stage train, step 34 of 107, and there has been no sign of life for 90 s. No cluster",
    ),
    "files-failed": (
        lambda: recorded(progress(state="failed", code=65, why="no pairs.")),
        "failed with exit code 65: no pairs. No cluster was asked",
    ),
    "files-succeeded": (
        lambda: recorded(progress(state="succeeded"), has_export=True),
        "succeeded: export/ holds the model. No cluster was asked",
    ),
    "no-cluster": (
        lambda: unselected(view(get_jobsets=refused(0, "x"))),
        "No cluster was asked: no kubeconfig.",
    ),
    "cluster-unreachable": (
        lambda: view(get_jobsets=refused(0, "Connection refused")),
        "context here does not answer: Connection refused.",
    ),
    "cluster-error": (
        lambda: view(jobset(), list_pods=refused(503, "apiserver is shutting down")),
        "context here left a request without an answer: list pods: apiserver is shutting down.",
    ),
    "not-authenticated": (lambda: view(get_jobsets=refused(401, "Unauthorized")), "here"),
    "jobset-api-missing": (
        lambda: view(groups=["kueue.x-k8s.io"], get_jobsets=refused(404, "404 page not found")),
        "no JobSet API",
    ),
    "no-permission": (lambda: view(get_jobsets=refused()), "User eve"),
    "run-ended-and-removed": (
        lambda: view(files=files(progress={"state": "failed", "why": "disk full"})),
        "failed (disk full)",
    ),
    "run-not-found": (
        lambda: view(list_jobsets=listed([{"metadata": {"name": "dpo-2"}}])),
        "no run dpo in namespace team of context here",
    ),
    "foreign-jobset": (
        lambda: view({"metadata": {"name": "dpo", "uid": "u"}, "spec": {"replicatedJobs": []}}),
        "not made by this chart",
    ),
    "succeeded": (
        lambda: view(jobset(terminalState="Completed"), files(has_export=True)),
        "export/ holds the model",
    ),
    "no-progress": (lambda: ends(93, "hang three times", "no-progress"), "hang three times"),
    "gpu-memory": (lambda: ends(79, "CUDA out of memory", "gpu-memory"), "rank 1 (dpo-node-0-1"),
    "user-error": (
        lambda: ends(65, "pairs.jsonl line 17: no field rejected", "row", stage="download"),
        "at stage download on rank 1 (dpo-node-0-1-x7k2p on node-2): pairs.jsonl line 17",
    ),
    "preflight-failed": (
        lambda: View(
            ends(80, "health: uncorrected errors", "preflight-health").snapshot,
            files(
                attempts=(
                    Attempt(
                        number=1,
                        resumed=0,
                        failed_checks=(
                            PreflightFinding(
                                rank=1,
                                pod="p",
                                node="n",
                                check="health",
                                device="GPU 3",
                                seen="uncorrected errors",
                                remedy="",
                            ),
                        ),
                    ),
                )
            ),
        ),
        "GPU 3",
    ),
    "hang": (lambda: ends(81, "no step for 600 s", "hang"), "no step for 600 s"),
    "host-memory": (
        lambda: view(jobset(), pods=[pod(0, ended(1)), pod(1, ended(137, reason="OOMKilled"))]),
        "ended rank 1 (dpo-node-0-1-x7k2p on node-2)",
    ),
    "gang-incomplete": (
        lambda: ends(69, "gang of 2 nodes: rank 1 did not join", "gang-incomplete", rank=0),
        "rank 1 did not join",
    ),
    "storage-failed": (lambda: ends(74, "Input/output error", "io"), "Input/output error"),
    "hub-unavailable": (
        lambda: ends(69, "huggingface.co does not answer", "hub", rank=0),
        "huggingface.co",
    ),
    "pod-evicted": (
        lambda: view(
            jobset(),
            pods=[
                pod(0, RUNNING),
                pod(1, None, phase="Failed", reason="Evicted", message="node was low on memory"),
            ],
        ),
        "node was low on memory",
    ),
    "terminated": (lambda: ends(75, "saved at step 8", "preempted"), "saved at step 8"),
    "rank-failed": (
        lambda: view(jobset(), pods=[pod(0, RUNNING), pod(1, ended(137, "Killed"))]),
        "Exit code 137 ended rank 1 (dpo-node-0-1-x7k2p on node-2): Killed",
    ),
    "jobset-user-rule": (
        lambda: failed(
            "FailJobSetFailurePolicyAction",
            "applying FailJobSet failure policy action (first failed job: dpo-node-0)",
            "Container launcher for pod team/dpo-node-0-1-x failed with exit code 78 matching "
            "FailJob rule at index 2",
        ),
        "exit code 78",
    ),
    "restarts-exhausted": (
        lambda: failed(
            "ReachedMaxRestarts",
            "jobset failed due to reaching max number of restarts (first failed job: dpo-node-0)",
            "Job has reached the specified backoff limit",
        ),
        "backoff limit",
    ),
    "jobset-failed": (
        lambda: failed("FailedJobs", "jobset failed due to one or more job failures"),
        "FailedJobs",
    ),
    "stopped": (
        lambda: inactive("Deactivated", "The workload is deactivated", by="ann"),
        "stopped by ann",
    ),
    "requeuing-limit": (
        lambda: inactive(
            "DeactivatedDueToRequeuingLimitExceeded",
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
        ),
        "maximum number of re-queuing",
    ),
    "max-exec-time": (
        lambda: inactive(
            "DeactivatedDueToMaximumExecutionTimeExceeded",
            "The workload is deactivated due to exceeding the maximum execution time",
        ),
        "maximum execution time",
    ),
    "deactivated": (
        lambda: inactive(
            "DeactivatedDueToMaintenance",
            "The workload is deactivated due to maintenance of the racks",
        ),
        "due to maintenance of the racks",
    ),
    "suspended": (lambda: view(suspended(queue=None)), "suspended"),
    "kueue-missing": (
        lambda: view(
            suspended(), groups=["jobset.x-k8s.io"], list_workloads=refused(404, "not found")
        ),
        "queue gpu",
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
            cluster={
                **queue("gpus"),
                "status": {
                    "conditions": [
                        condition(
                            "Active",
                            "False",
                            "AdmissionCheckNotFound",
                            "Can't admit new workloads: references missing AdmissionCheck(s): "
                            "capacity.",
                        )
                    ]
                },
            },
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
            pending(SHORT, "WaitingForQuota"),
            others=[
                workload(name="jobset-big-2", holds=16),
                workload(name="jobset-vis-3", space="vision", holds=8),
                pending(SHORT, name="jobset-old-4", created="2026-11-18T07:00:00Z"),
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
            cluster={
                **queue("gpus"),
                "status": {
                    "conditions": [
                        condition(
                            "Active",
                            "False",
                            "FlavorNotFound",
                            "Can't admit new workloads: references missing ResourceFlavor(s): "
                            "a100.",
                        )
                    ]
                },
            },
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
    "pods-refused-security": (
        lambda: not_created(
            'violates PodSecurity "restricted:latest": unrestricted capabilities (container '
            '"launcher" must not include "IPC_LOCK" in securityContext.capabilities.add)'
        ),
        "IPC_LOCK",
    ),
    "pods-refused-quota": (
        lambda: not_created(
            "exceeded quota: team, requested: requests.nvidia.com/gpu=8, used: "
            "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"
        ),
        "limited: requests.nvidia.com/gpu=8",
    ),
    "pods-refused-webhook": (
        lambda: view(
            jobset(),
            events=[
                event(
                    "FailedCreate",
                    'Error creating: admission webhook "policy.example.com" denied the request: no '
                    "label team",
                )
            ],
        ),
        "no label team",
    ),
    "pods-refused": (
        lambda: not_created('error looking up service account team/trainer: "trainer" not found'),
        "trainer",
    ),
    "scheduling-gated": (
        lambda: away([GATED, pod(1, RUNNING)]),
        "kueue.x-k8s.io/topology",
    ),
    "claim-missing": (
        lambda: unscheduled(
            '0/3 nodes are available: persistentvolumeclaim "training" not found.',
            **{"get_persistentvolumeclaims_of_training": refused(404)},
        ),
        "Claim training",
    ),
    "claim-unbound": (
        lambda: unscheduled(
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            **{"get_persistentvolumeclaims_of_training": found({"status": {"phase": "Pending"}})},
        ),
        "unbound immediate PersistentVolumeClaims",
    ),
    "unschedulable-resources": (
        lambda: unscheduled(
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are "
            "available: 3 No preemption victims found for incoming pod."
        ),
        "No node has room for ranks 0-1, because nvidia.com/gpu is short",
    ),
    "unschedulable-taint": (
        lambda: unscheduled(
            "0/3 nodes are available: 3 node(s) had untolerated taint {gpu: reserved}."
        ),
        "{gpu: reserved}",
    ),
    "unschedulable-affinity": (
        lambda: unscheduled(
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
        ),
        "didn't match Pod's node affinity/selector",
    ),
    "unschedulable": (
        lambda: unscheduled("0/3 nodes are available: 3 node(s) didn't have free ports."),
        "free ports",
    ),
    "image-name-invalid": (
        lambda: stuck(
            waiting("InvalidImageName", 'Failed to apply default image tag "A:b": invalid format')
        ),
        "invalid format",
    ),
    "image-pull-denied": (
        lambda: stuck(
            waiting("ImagePullBackOff", 'Back-off pulling image "example.com/swift:1"'),
            event("Failed", "Failed to pull image: example.com/swift:1: not found", "p"),
            event("Failed", "Error: ImagePullBackOff", "p"),
        ),
        "example.com/swift:1: not found",
    ),
    "image-pull": (
        lambda: stuck(waiting("ErrImagePull", "dial tcp: i/o timeout")),
        "pulled for rank 1 (dpo-node-0-1-x7k2p on node-2): dial tcp: i/o timeout",
    ),
    "secret-missing": (
        lambda: stuck(waiting("CreateContainerConfigError", 'secret "hf-token" not found')),
        "Secret hf-token",
    ),
    "config-map-missing": (
        lambda: stuck(
            waiting("ContainerCreating"),
            event(
                "FailedMount",
                'MountVolume.SetUp failed for volume "launchers" : configmap "dpo-launchers" not '
                "found",
            ),
        ),
        "ConfigMap dpo-launchers",
    ),
    "key-missing": (
        lambda: stuck(
            waiting("CreateContainerConfigError", "couldn't find key token in Secret team/hf-token")
        ),
        "Secret team/hf-token, required by rank 1 (dpo-node-0-1-x7k2p on node-2), has no key token",
    ),
    "mount-failed": (
        lambda: stuck(
            waiting("ContainerCreating"),
            event("FailedMount", 'MountVolume.SetUp failed for volume "workspace" : mount failed'),
        ),
        "mount failed",
    ),
    "container-not-started": (
        lambda: stuck(waiting("CreateContainerError", "failed to reserve container name")),
        "CreateContainerError",
    ),
    "init-container": (lambda: away([pod(0, RUNNING), INIT]), "Init container gib"),
    "node-lost": (lambda: away([pod(0, RUNNING), LOST]), "Node node-2 of rank 1"),
    "terminating": (lambda: away([pod(0, RUNNING), LEAVING]), "node-2), awaited for 100 s"),
    "pulling": (
        lambda: stuck(
            waiting("ContainerCreating"),
            event("Pulling", "Pulling image", when="2026-11-18T10:25:40Z"),
        ),
        "node-2) for 60 s",
    ),
    "starting": (lambda: stuck(waiting("ContainerCreating")), "rank 1 (dpo-node-0-1-x7k2p"),
    "ranks-missing": (
        lambda: view(
            three_ranks(),
            files(progress=progress(phases={"container": NOW - 60})),
            pods=[*BOTH, pod(2, RUNNING)],
            log=JOINING,
        ),
        "start barrier for rank 1 of 3 nodes: rank 1 (dpo-node-0-1-x7k2p on node-2) is Running",
    ),
    "restarting": (
        lambda: view(
            jobset(condition("RestartingJobSet", "True", "FailurePolicy_disruption", "by a rule"))
        ),
        "by a rule",
    ),
    "stalled": (
        lambda: view(jobset(), training(1800), pods=BOTH),
        "No optimizer step for 30 min; one usually takes 12 s",
    ),
    "preparing": (
        lambda: view(
            jobset(),
            files(progress=progress(stage="download", phases={"container": NOW - 90})),
            pods=BOTH,
        ),
        "at stage download for 90 s",
    ),
    "loading": (lambda: view(jobset(), files(progress=progress()), pods=BOTH), "last phase: gang"),
    "training": (
        lambda: view(jobset(), training(6), pods=BOTH),
        "step 34 of 107, 15 min left",
    ),
    "pods-awaited": (
        lambda: view(jobset(), pods=[pod(0, RUNNING), pod(1, None)]),
        "1 of 2 ranks run.",
    ),
    "ending": (lambda: view(jobset(), pods=[pod(0, RUNNING), pod(1, ended(0))]), "rank 1 (dpo"),
    "running": (lambda: view(jobset(), pods=BOTH), "All 2 ranks run; the workspace was not read"),
    "not-understood": (
        lambda: view(jobset(), list_pods=refused(), list_jobs=refused()),
        "you lack list jobs, list pods",
    ),
}

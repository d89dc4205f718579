"""States of runs that have succeeded, failed or been stopped.

Messages are those of the controllers' sources: Kueue 0.19.2, JobSet 0.12.0, Kubernetes 1.34.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from scripts.observe.view import View
from scripts.observe.workspace import Attempt, PreflightFinding
from scripts.why.holding import STOPPED_BY
from tests.scripts.observe import planted
from tests.scripts.observe.planted import RUNNING, condition, ended, jobset, pod, view
from tests.scripts.why.planted import States, files


def message(code: int, rank: int, cause: str, id: str, **fields: Any) -> str:
    known = {"code": code, "class": "unknown", "stage": "train", "rank": rank, "step": None}
    return json.dumps({**known, "cause": cause, "remedy": "do it", "id": id, **fields})


def ends(code: int, cause: str, id: str, rank: int = 1, **fields: Any) -> View:
    """A gang in which a rank has ended, and its peer after it."""
    peer = message(1, 1 - rank, "rank 1 ended first", "peer-ended")
    states = {rank: ended(code, message(code, rank, cause, id, **fields)), 1 - rank: ended(1, peer)}
    return view(jobset(), pods=[pod(each, states[each]) for each in (0, 1)])


def inactive(reason: str, said: str, **notes: str) -> View:
    run = planted.suspended()
    run["metadata"]["annotations"] |= {STOPPED_BY: notes["by"]} if notes else {}
    return view(run, workloads=[planted.evicted(reason, said, active=False)])


def deactivated(reason: str, why: str) -> tuple[Callable[[], View], str]:
    said = f"The workload is deactivated due to {why}"
    return partial(inactive, f"DeactivatedDueTo{reason}", said), why


def failed(reason: str, said: str, job: str = "") -> View:
    counts: Any = {"terminalState": "Failed", "restartsCountTowardsMax": 5}
    of_job = condition("Failed", "True", "PodFailurePolicy", job)
    job_item = {"metadata": {"name": "dpo-node-0"}, "status": {"conditions": [of_job]}}
    return view(jobset(condition("Failed", "True", reason, said), **counts), jobs=[job_item])


def ended_by_kubelet(reason: str, said: str) -> View:
    return view(
        jobset(), pods=[pod(0, RUNNING), pod(1, None, phase="Failed", reason=reason, message=said)]
    )


CHECK = PreflightFinding(
    rank=1, pod="p", node="n", check="health", device="GPU 3", seen="uncorrected errors", remedy=""
)
UNHEALTHY = Attempt(number=1, resumed=0, failed_checks=(CHECK,))
STATES: States = {
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
            files(attempts=(UNHEALTHY,)),
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
        lambda: ended_by_kubelet("Evicted", "node was low on memory"),
        "node was low on memory",
    ),
    "pod-rejected": (
        lambda: ended_by_kubelet("OutOfnvidia.com/gpu", "used: 8"),
        "(OutOfnvidia.com/gpu): used: 8",
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
    "requeuing-limit": deactivated(
        "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    ),
    "max-exec-time": deactivated(
        "MaximumExecutionTimeExceeded", "exceeding the maximum execution time"
    ),
    "deactivated": deactivated("Maintenance", "maintenance of the racks"),
}

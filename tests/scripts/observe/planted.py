"""A run as plain objects: JobSet as the chart renders it, pods and Workload as controllers do."""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.doctor.api import Answer
from scripts.manifest import KUEUE
from scripts.observe.cluster import Snapshot
from scripts.observe.view import View
from scripts.observe.workspace import RunFiles
from tests.scripts.doctor.healthy import release

Object = dict[str, Any]
NOW = 1_794_997_600.0
STARTED = "2026-11-18T10:26:40Z"
"""NOW, as the API spells it."""
GPU = "nvidia.com/gpu"
GROUPS = ("jobset.x-k8s.io", KUEUE)
LOCAL_QUEUE: Object = {"metadata": {"name": "gpu"}, "spec": {"clusterQueue": "gpus"}}


def rewrite(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def jobset(*conditions: Object, queue: str | None = "gpu", **status: Any) -> Object:
    """The JobSet of values/a100-2node.yaml as the API server stores it."""
    made: Object = copy.deepcopy(dict(release().jobset.manifest))
    made["metadata"] |= {"uid": "u-1", "creationTimestamp": "2026-11-18T08:26:40Z"}
    labels = made["metadata"]["labels"]
    if queue is None:
        labels.pop(f"{KUEUE}/queue-name")
    else:
        labels[f"{KUEUE}/queue-name"] = queue
    made["status"] = {"restarts": 0, "conditions": list(conditions), **status}
    return made


def template_of(run: Object) -> Object:
    made: Object = run["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return made


def container_of(run: Object) -> Object:
    made: Object = template_of(run)["spec"]["containers"][0]
    return made


def suspended(*conditions: Object, **fields: Any) -> Object:
    made = jobset(*conditions, **fields)
    made["spec"]["suspend"] = True
    return made


def workload(
    *conditions: Object,
    name: str = "jobset-dpo-1",
    space: str = "team",
    active: bool | None = None,
    holds: int = 0,
    created: str = "2026-11-18T08:26:41Z",
    of: str = "",
    **status: Any,
) -> Object:
    """A Workload of the queue `gpu`; with `holds` GPUs of flavor a100 it is admitted.

    ``of``: the UID of its JobSet.
    """
    spec: Object = {"queueName": "gpu", "priority": 0}
    if active is not None:
        spec["active"] = active
    given = list(conditions)
    if holds:
        assigned = {"flavors": {GPU: "a100"}, "resourceUsage": {GPU: str(holds)}, "name": "node"}
        status["admission"] = {"clusterQueue": "gpus", "podSetAssignments": [assigned]}
        given += [condition(each, "True", each) for each in ("QuotaReserved", "Admitted")]
    metadata = {
        "name": name,
        "namespace": space,
        "uid": f"uid-{name}",
        "creationTimestamp": created,
        "ownerReferences": [{"kind": "JobSet", "name": name.split("-")[1]}],
        "labels": {f"{KUEUE}/job-uid": of} if of else {},
    }
    return {"metadata": metadata, "spec": spec, "status": {"conditions": given, **status}}


def pending(message: str, reason: str = "Pending", **fields: Any) -> Object:
    """A Workload without quota, with Kueue's reason."""
    return workload(condition("QuotaReserved", "False", reason, message), **fields)


def evicted(reason: str, message: str, **fields: Any) -> Object:
    """A Workload after an eviction, back in its queue."""
    return workload(
        condition("QuotaReserved", "False", "Pending", message),
        condition("Evicted", "True", reason, message),
        **fields,
    )


RUNNING: Object = {"running": {"startedAt": "2026-11-18T09:26:40Z"}}


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, message: str = "", reason: str = "Error") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def pod(
    rank: int,
    state: Object | None = None,
    *conditions: Object,
    phase: str | None = None,
    node: str | None = None,
    **fields: Any,
) -> Object:
    """A pod of the gang; without a state it is Pending and has no containers yet."""
    name = f"dpo-node-0-{rank}-x7k2p"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "dpo",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "batch.kubernetes.io/job-completion-index": str(rank),
    }
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-11-18T09:20:00Z"}
    metadata |= fields.pop("metadata", {})
    spec: Object = {"nodeName": f"node-{rank + 1}" if node is None else node}
    spec |= fields.pop("spec", {})
    if state is None:
        spec.pop("nodeName")
    status: Object = {"phase": phase or _phase(state), "conditions": list(conditions), **fields}
    if state is not None:
        is_ready = "running" in state
        status["containerStatuses"] = [{"name": "launcher", "ready": is_ready, "state": state}]
        if not conditions and is_ready:
            status["conditions"] = [condition("Ready", "True", "")]
    return {"metadata": metadata, "spec": spec, "status": status}


def _phase(state: Object | None) -> str:
    if state and "terminated" in state:
        return "Failed" if state["terminated"]["exitCode"] else "Succeeded"
    return "Running" if state and "running" in state else "Pending"


def event(reason: str, message: str, of: str = "dpo-node-0", when: str = STARTED) -> Object:
    made = {"reason": reason, "message": message, "lastTimestamp": when}
    return {"metadata": {"name": f"{of}.1"}, "involvedObject": {"name": of}, **made}


def found(content: Mapping[str, Any]) -> Answer:
    return Answer(status=200, content=content)


def listed(items: Iterable[Object]) -> Answer:
    return found({"items": list(items)})


def refused(status: int = 403, message: str = "forbidden: User eve cannot do this") -> Answer:
    return Answer(status=status, content={"message": message})


def snapshot(
    run: Object | None = None,
    *,
    workloads: Sequence[Object] = (),
    others: Sequence[Object] = (),
    pods: Sequence[Object] = (),
    jobs: Sequence[Object] = (),
    events: Sequence[Object] = (),
    local: Object | None = None,
    cluster: Object | None = None,
    groups: Sequence[str] = GROUPS,
    log: str = "",
    left: Mapping[str, float] | None = None,
    **answers: Answer,
) -> Snapshot:
    """A snapshot; `answers` override those of the objects, with `_` for a blank."""
    all_workloads = [*workloads, *others]
    made: dict[str, Answer] = {
        "get jobsets": found(run) if run else refused(404, 'jobsets "dpo" not found'),
        "list pods": listed(pods),
        "list jobs": listed(jobs),
        "get /apis": found({"groups": [{"name": each} for each in groups]}),
        "list workloads": listed(workloads),
        "list workloads of the namespace": listed(
            each for each in all_workloads if each["metadata"]["namespace"] == "team"
        ),
        "list workloads everywhere": listed(all_workloads),
        "get localqueues": found(local or LOCAL_QUEUE),
        "get clusterqueues": found(cluster or {"metadata": {"name": "gpus"}, "spec": {}}),
        "list events of dpo": listed(events),
        "list jobsets": listed([]),
    }
    made |= {name.replace("_", " "): answer for name, answer in answers.items()}
    return Snapshot(
        context="here", namespace="team", run="dpo", now=NOW, answers=made, log=log, left=left or {}
    )


def view(run: Object | None = None, files: RunFiles | None = None, **fields: Any) -> View:
    return View(snapshot(run, **fields), files)

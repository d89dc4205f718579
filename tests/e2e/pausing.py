"""Runs whose pods only wait, and queues of their own: what Kueue reads of a run, without Helm.

A run's JobSet has the gang of the chart's (one replicated job, ``node``), so that ``why`` reads it
like any other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from scripts.manifest import GANG, KUEUE
from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.merge import merge
from tests.e2e.space import Space

GPU = "nvidia.com/gpu"
FLAVOR = "plain"
"""A flavor without a topology: what other tests leave of the racks does not matter."""
_SMALL = {"cpu": "10m", "memory": "16Mi"}


@dataclass(frozen=True, kw_only=True)
class Pausing:
    """A run: what it asks its queue for."""

    name: str
    queue: str = ""
    """LocalQueue; empty for a run without one."""
    gpus: int = 1
    nodes: int = 1
    priority: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the pods."""
    command: tuple[str, ...] = ("sleep", "infinity")
    image: str = f"{standin.IMAGE['repository']}:{standin.IMAGE['tag']}"
    env: Sequence[Object] = ()
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Fields that override the pod's spec."""

    @property
    def jobset(self) -> Object:
        labels = {**self.labels}
        if self.queue:
            labels[f"{KUEUE}/queue-name"] = self.queue
        if self.priority:
            labels[f"{KUEUE}/priority-class"] = self.priority
        template = {"metadata": {"annotations": {**self.annotations}}, "spec": self._pod()}
        job = {
            "parallelism": self.nodes,
            "completions": self.nodes,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": template,
        }
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "failurePolicy": {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"},
                "replicatedJobs": [{"name": GANG, "template": {"spec": job}}],
            },
        }

    def _pod(self) -> Object:
        amounts = {**_SMALL, GPU: str(self.gpus)}
        container = {
            "name": "launcher",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": [*self.command],
            "env": [*self.env],
            "resources": {"requests": amounts, "limits": {GPU: str(self.gpus)}},
        }
        return merge(
            {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [container],
            },
            self.pod,
        )


def holder(space: Space, name: str, queue: str, gpus: int) -> Object:
    """Return a Workload without a job: Kueue admits it, and nothing would end it if it is evicted.

    So the preemption that it is the victim of lasts.
    """
    pods = {
        "name": GANG,
        "count": 1,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "none", "resources": {"requests": {GPU: str(gpus)}}}
                ],
            }
        },
    }
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": space.name},
        "spec": {"queueName": queue, "podSets": [pods], "priority": -1000},
    }


def queue(
    space: Space,
    name: str,
    *,
    gpus: int | None = 8,
    flavor: str = "",
    spec: Mapping[str, Any] | None = None,
    local: Mapping[str, Any] | None = None,
) -> list[Object]:
    """Return a ClusterQueue, and its LocalQueue of the namespace.

    ``gpus`` None: the ClusterQueue does not cover them; ``spec`` and ``local`` override fields.
    """
    quota = {"cpu": "100", "memory": "100Gi", **({} if gpus is None else {GPU: str(gpus)})}
    amounts = [{"name": key, "nominalQuota": value} for key, value in quota.items()]
    groups = [
        {
            "coveredResources": list(quota),
            "flavors": [{"name": flavor or f"{space.name}-{FLAVOR}", "resources": amounts}],
        }
    ]
    whole = f"{space.name}-{name}"
    space.queues.append(f"clusterqueues.{KUEUE}/{whole}")
    made = {"namespaceSelector": {}, "resourceGroups": groups, **(spec or {})}
    return [_kueue("ClusterQueue", whole, made), local_queue(space, name, whole, local)]


def local_queue(
    space: Space, name: str, whole: str, spec: Mapping[str, Any] | None = None
) -> Object:
    made = _kueue("LocalQueue", name, {"clusterQueue": whole, **(spec or {})})
    return merge(made, {"metadata": {"namespace": space.name}})


def plain(space: Space) -> Object:
    """Return the flavor of this namespace's queues that have no other."""
    return flavor(space, FLAVOR, {"nodeLabels": {"kubernetes.io/os": "linux"}})


def flavor(space: Space, name: str, spec: Mapping[str, Any]) -> Object:
    """Return a ResourceFlavor of this namespace's queues, removed with it."""
    whole = f"{space.name}-{name}"
    space.queues.append(f"resourceflavors.{KUEUE}/{whole}")
    return _kueue("ResourceFlavor", whole, spec)


def check(space: Space, name: str) -> str:
    """Create an AdmissionCheck whose controller is the test, and return its name."""
    whole = f"{space.name}-{name}"
    space.queues.append(f"admissionchecks.{KUEUE}/{whole}")
    item = _kueue("AdmissionCheck", whole, {"controllerName": "example.com/test"})
    space.kubectl.apply([item])
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    status(space, f"admissionchecks.{KUEUE}", whole, {"conditions": [_timed(active)]})
    return whole


def status(space: Space, kind: str, name: str, content: Mapping[str, Any]) -> None:
    change = json.dumps({"status": content})
    words = ("--subresource=status", "--type=merge", f"--patch={change}")
    space.kubectl.run("patch", kind, name, *words)


def answer(
    space: Space, workload: str, check: str, state: str, message: str, seconds: int | None = None
) -> None:
    """Set the state of a Workload's only AdmissionCheck, as its controller does."""
    found: Object = {"name": check, "state": state, "message": message}
    if seconds is not None:
        found["requeueAfterSeconds"] = seconds
    status(space, f"workloads.{KUEUE}", workload, {"admissionChecks": [_timed(found)]})


def condemn(space: Space, workload: str, reason: str, message: str) -> None:
    """Have Kueue deactivate a Workload, as another controller may ask it to."""
    kind = {"type": "DeactivationTarget", "status": "True", "reason": reason, "message": message}
    found = space.kubectl.get(f"workloads.{KUEUE}", workload)["status"]["conditions"]
    status(space, f"workloads.{KUEUE}", workload, {"conditions": [*found, _timed(kind)]})


def _timed(condition: Object) -> Object:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"lastTransitionTime": now, **condition}


def _kueue(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def start(space: Space, *runs: Pausing) -> None:
    space.kubectl.apply(run.jobset for run in runs)

"""States of a run as objects that controllers and kubelets would have written, without either.

The objects are those of ``tests/scripts/why/states.py``, which ``why`` reads there without a
cluster. Here the API server stores them: JobSets and Jobs name a controller that does not exist,
pods are on nodes that do not exist, or ask for a scheduler that does not. The garbage collector of
pods removes those of missing nodes after 40 s.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from scripts.manifest import KUEUE
from scripts.observe.view import View
from tests.e2e.api import Object
from tests.e2e.kubectl import Kubectl

NOBODY = "example.com/nobody"
RUN, NODE = re.compile(r"\bdpo\b"), re.compile(r"(?<!-)\bnode-(?=\d)")
NOW = "2026-11-18T10:26:40Z"
_CONTAINER = {"name": "launcher", "image": "localhost/none"}


def renamed(text: str, name: str) -> str:
    """Return a text that names this run instead of ``dpo``, and nodes that do not exist."""
    return NODE.sub("away-", RUN.sub(name, text))


def plant(kubectl: Kubectl, views: Mapping[str, View]) -> None:
    """Store the objects of runs, each under its name, and wait for nothing."""
    made = [
        each for name, view in views.items() for each in _objects(name, view, kubectl.namespace)
    ]
    bare = [{k: v for k, v in each.items() if k != "status"} for each in made]
    kubectl.run("create", "-f", "-", stdin=_listed(bare))
    states = [
        {k: each[k] for k in ("apiVersion", "kind", "status")}
        | {"metadata": {"name": each["metadata"]["name"]}}
        for each in made
        if each.get("status")
    ]
    words = ("--server-side", "--force-conflicts", "--subresource=status", "-f", "-")
    kubectl.run("apply", *words, stdin=_listed(states))


def _listed(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _objects(name: str, view: View, space: str) -> list[Object]:
    """Return the objects of a run, complete enough for the API server."""
    answers = view.snapshot.answers
    pods, jobs, events = (
        list(answers[key].content["items"])
        for key in ("list pods", "list jobs", "list events of dpo")
    )
    if not jobs and not pods:
        jobs = [{"metadata": {"name": "dpo-node-0"}, "status": {}}]
    found = [
        _jobset(dict(view.jobset)),
        *(_pod(each) for each in pods),
        *(_job(each) for each in jobs),
        *(_event(number, each, space) for number, each in enumerate(events)),
    ]
    return [json.loads(renamed(json.dumps(each), name)) for each in found]


def _metadata(item: Object) -> Object:
    """Return what a client may set."""
    given = {k: v for k, v in item["metadata"].items() if k in ("name", "labels", "annotations")}
    labels = {k: v for k, v in given.get("labels", {}).items() if k != f"{KUEUE}/queue-name"}
    return given | {"labels": labels}


def _conditions(status: Mapping[str, Any]) -> list[Object]:
    return [{"lastTransitionTime": NOW, **each} for each in status.get("conditions", [])]


def _jobset(item: Object) -> Object:
    return {
        "apiVersion": item["apiVersion"],
        "kind": "JobSet",
        "metadata": _metadata(item),
        "spec": item["spec"] | {"managedBy": NOBODY},
        "status": item["status"] | {"conditions": _conditions(item["status"])},
    }


def _pod(item: Object) -> Object:
    statuses = {
        key: [
            {"image": "", "imageID": "", "restartCount": 0, "ready": False, **each} for each in of
        ]
        for key in ("containerStatuses", "initContainerStatuses")
        if (of := item["status"].get(key))
    }
    names = [each["name"] for each in statuses.get("initContainerStatuses", [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(item),
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "nobody",
            "containers": [_CONTAINER],
            "initContainers": [{**_CONTAINER, "name": name} for name in names],
            "automountServiceAccountToken": False,
            **item["spec"],
        },
        "status": item["status"] | statuses,
    }


def _job(item: Object) -> Object:
    failed = _conditions(item["status"])
    target = [{**each, "type": "FailureTarget"} for each in failed]
    metadata = _metadata(item)
    metadata["labels"] |= {"jobset.sigs.k8s.io/jobset-name": "dpo"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "managedBy": NOBODY,
            "template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}},
        },
        "status": {"startTime": NOW, "conditions": [*target, *failed]},
    }


def _event(number: int, item: Object, space: str) -> Object:
    """Return an event of the Job that creates the pods, or of the pod that does not run."""
    is_jobs = item["reason"] == "FailedCreate"
    name = "dpo-node-0" if is_jobs else "dpo-node-0-1-x7k2p"
    of = {"kind": "Job" if is_jobs else "Pod", "name": name, "namespace": space}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "reason": item["reason"],
        "message": item["message"],
        "lastTimestamp": item["lastTimestamp"],
        "involvedObject": of,
        "metadata": {"name": f"{name}.{number}"},
    }

"""Read the objects of a run for a bundle, with the rights of its user."""

from collections.abc import Iterator
from typing import Any

from launchers.state.contents import is_name
from scripts.doctor.api import SECRETS, Api, Object, connect
from scripts.observe.cluster import gather
from scripts.problem import Problem
from scripts.terminal import terminal

FOLDER = "cluster"


def objects(run: str, namespace: str | None, context: str | None) -> dict[str, Any]:
    """Return the documents of a run; none, with a note, without a cluster."""
    try:
        return documents(connect(context, namespace), run) if is_name(run) else {}
    except Problem as problem:
        terminal(stderr=True, soft_wrap=True).print(f"cluster not read: {problem}", highlight=False)
        return {}


def documents(api: Api, run: str) -> dict[str, Any]:
    """Return what the cluster holds of a run, by file name; a text is a log.

    The Secrets that the pods refer to are read where that is allowed: `build` keeps the names of
    their keys, and removes their contents from everything else.
    """
    seen = gather(api, run)
    found: dict[str, Any] = {
        "jobset.json": seen.jobset, "jobs.json": seen.jobs, "pods.json": seen.pods,
        "workload.json": seen.workload, "queue.json": seen.local_queue, "events.json": seen.events,
        "rank-0.log": seen.log, "missing-permissions.json": seen.missing_permissions,
    }  # fmt: skip
    for name in sorted({*secret_names(seen.jobset), *secret_names(seen.pods)}):
        answer = api.get(SECRETS.path(api.namespace, name))
        if answer.found:
            found[f"secrets/{name}.json"] = {**answer.content, "kind": "Secret"}
    return {f"{FOLDER}/{name}": each for name, each in found.items() if each}


def secret_names(part: Any) -> Iterator[str]:
    """Yield the names of the Secrets that an object refers to, in variables and volumes.

    >>> list(secret_names({"env": [{"valueFrom": {"secretKeyRef": {"name": "hf", "key": "k"}}}]}))
    ['hf']
    """
    if isinstance(part, list):
        for each in part:
            yield from secret_names(each)
    elif isinstance(part, dict):
        for key, inside in part.items():
            if key in ("secretKeyRef", "secretRef", "secret") and isinstance(inside, dict):
                name = _name(inside)
                if name:
                    yield name
            yield from secret_names(inside)


def _name(reference: Object) -> str:
    return str(reference.get("name") or reference.get("secretName") or "")

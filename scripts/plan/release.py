"""What the chart rendered, as plain data: who runs, where, with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from launchers.config.recipe import Recipe
from launchers.config.recipe import parse as parse_recipe
from launchers.config.settings import STAGES
from launchers.exits import LaunchError
from scripts.local.manifest import Fields, JobSet, ReplicatedJob, parse
from scripts.plan.quantity import parse as quantity
from scripts.problem import Problem

GANG = "node"
"""Name of the replicated job whose pods train (chart/templates/jobset/_spec.tpl)."""
KUEUE = "kueue.x-k8s.io"
_TOPOLOGY = f"{KUEUE}/podset-"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """What one pod of the gang may use."""

    cpus: float
    """Requested cores."""
    memory: float | None
    """Limit in bytes, with what lies in /dev/shm; None when the values removed it."""
    shared_memory: float | None
    """Bytes of /dev/shm, which count as memory."""
    ephemeral: float | None
    """Limit of the node's own disk in bytes, when there is one."""
    devices: Mapping[str, int]
    """Extended resources, such as GPUs and RDMA devices."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A rendered release."""

    run: str
    recipe: Recipe
    nodes: int
    gpus_per_node: int
    env: Mapping[str, str]
    """Plain variables of the gang's container; those from a Secret or a field are left out."""
    pod: Pod
    image: str
    queue: str
    """Kueue's LocalQueue; empty when the run starts at once."""
    priority: str
    topology: str
    """Such as ``preferred cloud.provider.com/topology-block``; empty for none."""
    placement: str
    """``inline``, or ``jobs`` when clone and download have pods of their own."""
    skips: frozenset[str]
    workspace: str
    """The shared volume in words."""
    workspace_size: float | None
    """Bytes of a claim that this release makes."""
    restarts: int


def read(text: str) -> Release:
    """Read a rendered manifest.

    Raises:
        Problem: it is not of this chart, or its recipe can't be read.
    """
    jobset = parse(text, runnable=False)
    gang = next((job for job in jobset.jobs if job.name == GANG), None)
    if gang is None:
        raise Problem(f"the JobSet {jobset.name} has no replicated job {GANG}: not of this chart")
    env = {item["name"]: str(item["value"]) for item in _list(gang.container, "env", "value")}
    volumes = {volume["name"]: volume for volume in _list(gang.pod, "volumes")}
    return Release(
        run=jobset.name,
        recipe=_recipe(jobset),
        nodes=gang.replicas * gang.completions,
        gpus_per_node=int(env.get("DPO_GPUS_PER_NODE", "0")),
        env=env,
        pod=_pod(gang, volumes.get("shm") or {}),
        image=str(gang.container["image"]),
        queue=jobset.labels.get(f"{KUEUE}/queue-name", ""),
        priority=jobset.labels.get(f"{KUEUE}/priority-class", ""),
        topology=_topology(gang.annotations),
        placement="jobs" if len(jobset.jobs) > 1 else "inline",
        skips=frozenset(stage for stage in STAGES if env.get(f"SKIP_{stage.upper()}") == "1"),
        workspace=_words(volumes.get("workspace") or {}),
        workspace_size=_claim(text),
        restarts=jobset.max_restarts,
    )


def _claim(text: str) -> float | None:
    """Bytes of the claim that a release makes; None when it makes none."""
    objects = (item for item in yaml.safe_load_all(text) if item)
    claims = (item for item in objects if item.get("kind") == "PersistentVolumeClaim")
    sizes = (claim["spec"]["resources"]["requests"]["storage"] for claim in claims)
    return next((quantity(str(size)) for size in sizes), None)


def _list(owner: Fields, key: str, having: str = "name") -> list[dict[str, Any]]:
    return [item for item in owner.get(key) or [] if having in item]


def _recipe(jobset: JobSet) -> Recipe:
    for data in jobset.config_maps.values():
        if "recipe.yaml" in data:
            try:
                return parse_recipe(yaml.safe_load(data["recipe.yaml"]))
            except LaunchError as error:
                raise Problem(f"{error.cause}; {error.remedy}") from None
    raise Problem(f"no ConfigMap of {jobset.name} holds a recipe.yaml: not of this chart")


def _pod(gang: ReplicatedJob, shm: Fields) -> Pod:
    resources = gang.container.get("resources") or {}
    limits = {name: quantity(str(n)) for name, n in (resources.get("limits") or {}).items()}
    requests = resources.get("requests") or {}
    shared = (shm.get("emptyDir") or {}).get("sizeLimit")
    return Pod(
        cpus=quantity(str(requests.get("cpu", 0))),
        memory=limits.get("memory"),
        shared_memory=None if shared is None else quantity(str(shared)),
        ephemeral=limits.get("ephemeral-storage"),
        devices={name: int(number) for name, number in limits.items() if "/" in name},
    )


def _topology(annotations: Mapping[str, str]) -> str:
    """The topology that Kueue is asked for.

    >>> _topology({"kueue.x-k8s.io/podset-required-topology": "block"})
    'required block'
    """
    for mode in ("required", "preferred"):
        level = annotations.get(f"{_TOPOLOGY}{mode}-topology")
        if level:
            return f"{mode} {level}"
    return "unconstrained" if f"{_TOPOLOGY}unconstrained-topology" in annotations else ""


def _words(volume: Fields) -> str:
    """A volume in words.

    >>> _words({"name": "workspace", "persistentVolumeClaim": {"claimName": "training"}})
    'claim training'
    """
    claim, nfs, host = (volume.get(k) for k in ("persistentVolumeClaim", "nfs", "hostPath"))
    if claim:
        return f"claim {claim['claimName']}"
    if nfs:
        return f"NFS {nfs['server']}:{nfs['path']}"
    return f"host folder {host['path']}" if host else "emptyDir"

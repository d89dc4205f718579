"""A release as it is submitted: the numbers and words of its manifest that a plan needs."""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from launchers.config.recipe import Recipe
from launchers.config.recipe import parse as parse_recipe
from launchers.config.settings import SKIPS
from launchers.refusal import Refusal
from scripts.manifest import KUEUE, Fields, JobSet, Release, ReplicatedJob, parse_release
from scripts.problem import Problem, of_launcher
from scripts.quantity import parse_amounts, parse_quantity
from scripts.values import settings

_TOPOLOGY = f"{KUEUE}/podset-"


@dataclass(frozen=True, kw_only=True)
class GangPod:
    """Resources of one pod of the gang."""

    cpus: float
    """Requested cores."""
    memory: float | None
    """Limit in bytes, including /dev/shm; None when the values removed it."""
    shared_memory: float | None
    """Size of /dev/shm in bytes; it counts as memory."""
    ephemeral: float | None
    """Limit of the node's own disk in bytes, when there is one."""
    devices: Mapping[str, int]
    """Extended resources, such as GPUs and RDMA devices."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A rendered release, as a plan describes it."""

    run: str
    recipe: Recipe
    nodes: int
    gpus_per_node: int
    gpu_model: str
    """The chart's `gpuModel`; empty when the values do not name one."""
    env: Mapping[str, str]
    """Plain variables of the gang's container; those from a Secret or a field are left out."""
    pod: GangPod
    image: str
    queue: str
    """Kueue's LocalQueue; empty when the run starts without Kueue."""
    priority: str
    topology: str
    """Such as ``preferred cloud.provider.com/topology-block``; empty for none."""
    placement: str
    """``inline``, or ``jobs`` when clone and download have pods of their own."""
    skips: frozenset[str]
    workspace: str
    """The shared volume in words."""
    workspace_size: float | None
    """Bytes of the claim that this release creates; None when it creates none."""
    restarts: int
    grace_seconds: float
    """From SIGTERM to SIGKILL."""
    refusals: tuple[Refusal, ...]
    """Settings that cannot work, of which the templates know nothing."""
    warnings: tuple[str, ...]
    """Settings without the effect that they seem to have."""


def read_submission(text: str) -> Submission:
    """Read a rendered manifest.

    Raises:
        Problem: it was not rendered from this chart, or its recipe can't be read.
    """
    release = parse_release(text)
    jobset, gang = release.jobset, release.gang
    volumes = {volume["name"]: volume for volume in gang.pod.get("volumes") or []}
    recipe = _recipe(jobset)
    return Submission(
        run=jobset.name,
        recipe=recipe,
        nodes=gang.count,
        gpus_per_node=int(gang.env.get("DPO_GPUS_PER_NODE", "0")),
        gpu_model=jobset.gpu_model,
        env=gang.env,
        pod=_pod(gang, volumes.get("shm") or {}),
        image=str(gang.container["image"]),
        queue=jobset.queue,
        priority=jobset.priority,
        topology=_topology(gang.annotations),
        placement="jobs" if len(jobset.jobs) > 1 else "inline",
        skips=frozenset(stage for stage, name in SKIPS.items() if gang.env.get(name) == "1"),
        workspace=_volume_text(volumes.get("workspace") or {}),
        workspace_size=_claim_size(release),
        restarts=jobset.max_restarts,
        grace_seconds=gang.grace,
        refusals=tuple(settings.refusals(release)),
        warnings=tuple(settings.warnings(release, named_sources(recipe))),
    )


def named_sources(recipe: Recipe) -> list[tuple[str, str]]:
    """Return key and text of the model and each dataset."""
    datasets = [(f"recipe.dataset[{i}]", text) for i, text in enumerate(recipe.dataset)]
    return [("recipe.model", recipe.model), *datasets]


def _claim_size(release: Release) -> float | None:
    sizes = (each["spec"]["resources"]["requests"]["storage"] for each in release.claims.values())
    return next((float(parse_quantity(size)) for size in sizes), None)


def _recipe(jobset: JobSet) -> Recipe:
    for data in jobset.config_maps.values():
        if "recipe.yaml" in data:
            with of_launcher():
                return parse_recipe(yaml.safe_load(data["recipe.yaml"]))
    raise Problem(f"no ConfigMap of {jobset.name} holds a recipe.yaml: not of this chart")


def _pod(gang: ReplicatedJob, shm: Fields) -> GangPod:
    resources = gang.container.get("resources") or {}
    limits = {name: float(n) for name, n in parse_amounts(resources.get("limits")).items()}
    requests = resources.get("requests") or {}
    shared = (shm.get("emptyDir") or {}).get("sizeLimit")
    return GangPod(
        cpus=float(parse_quantity(requests.get("cpu", 0))),
        memory=limits.get("memory"),
        shared_memory=None if shared is None else float(parse_quantity(shared)),
        ephemeral=limits.get("ephemeral-storage"),
        devices={name: int(number) for name, number in limits.items() if "/" in name},
    )


def _topology(annotations: Mapping[str, str]) -> str:
    """Return the topology that the gang asks Kueue for.

    >>> _topology({"kueue.x-k8s.io/podset-required-topology": "block"})
    'required block'
    """
    for mode in ("required", "preferred"):
        level = annotations.get(f"{_TOPOLOGY}{mode}-topology")
        if level:
            return f"{mode} {level}"
    return "unconstrained" if f"{_TOPOLOGY}unconstrained-topology" in annotations else ""


def _volume_text(volume: Fields) -> str:
    """Describe a volume.

    >>> _volume_text({"name": "workspace", "persistentVolumeClaim": {"claimName": "training"}})
    'claim training'
    >>> _volume_text({"name": "workspace", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}})
    'volume of gcsfuse.csi.storage.gke.io'
    """
    claim, nfs, host = (volume.get(k) for k in ("persistentVolumeClaim", "nfs", "hostPath"))
    if claim:
        return f"claim {claim['claimName']}"
    if nfs:
        return f"NFS {nfs['server']}:{nfs['path']}"
    driver = (volume.get("csi") or {}).get("driver")
    if driver:
        return f"volume of {driver}"
    return f"host folder {host['path']}" if host else "emptyDir"

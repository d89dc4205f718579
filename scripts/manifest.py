"""The parts of a rendered JobSet that running it needs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from scripts.problem import Problem

Fields = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReplicatedJob:
    """One replicated job: `replicas` Jobs of `completions` pods, all from one pod template."""

    name: str
    replicas: int
    completions: int
    depends_on: tuple[str, ...]
    failure_rules: Sequence[Fields]
    """`podFailurePolicy.rules` of the Job."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Fields
    """The pod's `spec`."""

    @property
    def container(self) -> Fields:
        """The only container."""
        container: Fields = self.pod["containers"][0]
        return container

    @property
    def grace(self) -> float:
        """Seconds from SIGTERM to SIGKILL; Kubernetes' default is 30."""
        return float(self.pod.get("terminationGracePeriodSeconds", 30))


@dataclass(frozen=True, kw_only=True)
class JobSet:
    """A JobSet and the ConfigMaps rendered beside it."""

    name: str
    labels: Mapping[str, str]
    subdomain: str
    max_restarts: int
    failure_rules: Sequence[Fields]
    """`failurePolicy.rules`."""
    jobs: tuple[ReplicatedJob, ...]
    config_maps: Mapping[str, Mapping[str, str]]


def parse(text: str, *, runnable: bool = True) -> JobSet:
    """The JobSet of a rendered manifest.

    Args:
        text: the manifest, YAML.
        runnable: refuse pods that are more than one process.

    Raises:
        Problem: the text holds no JobSet or several, or a pod that this runner can't stand for.
    """
    try:
        objects = [item for item in yaml.safe_load_all(text) if isinstance(item, dict)]
    except yaml.YAMLError as error:
        raise Problem(f"the manifest is no YAML: {error}") from None
    found = [item for item in objects if item.get("kind") == "JobSet"]
    if len(found) != 1:
        raise Problem(f"the manifest holds {len(found)} JobSets; give one with exactly one")
    try:
        return _jobset(found[0], objects, runnable)
    except KeyError as key:
        raise Problem(f"the JobSet has no {key}; give what `helm template` prints") from None


def _jobset(item: Fields, objects: Sequence[Fields], runnable: bool) -> JobSet:
    spec = item["spec"]
    name = item["metadata"]["name"]
    policy = spec.get("failurePolicy") or {}
    maps = (other for other in objects if other.get("kind") == "ConfigMap")
    return JobSet(
        name=name,
        labels=item["metadata"].get("labels") or {},
        subdomain=(spec.get("network") or {}).get("subdomain") or name,
        max_restarts=int(policy.get("maxRestarts", 0)),
        failure_rules=policy.get("rules") or [],
        jobs=tuple(_job(job, runnable) for job in spec["replicatedJobs"]),
        config_maps={each["metadata"]["name"]: each.get("data") or {} for each in maps},
    )


def _job(item: Fields, runnable: bool) -> ReplicatedJob:
    spec = item["template"]["spec"]
    template = spec["template"]
    pod = template["spec"]
    for kind in ("containers", "initContainers"):
        count = len(pod.get(kind) or [])
        if runnable and count != (kind == "containers"):
            raise Problem(
                f"pods of {item['name']} have {count} {kind}; locally a pod is one process: "
                "choose a network.profile without init containers, such as tcp"
            )
    metadata = template.get("metadata") or {}
    return ReplicatedJob(
        name=item["name"],
        replicas=int(item.get("replicas", 1)),
        completions=int(spec.get("completions", 1)),
        depends_on=tuple(other["name"] for other in item.get("dependsOn") or []),
        failure_rules=(spec.get("podFailurePolicy") or {}).get("rules") or [],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        pod=pod,
    )

"""The rendered manifest: the only reader of what `helm template` prints.

`megatron-dpo local` runs its JobSet, `plan` sizes it up, `doctor` compares it with a cluster.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import yaml

from launchers.yaml_file import LOADER
from scripts.problem import Problem
from scripts.quantity import pod_requests

Fields = Mapping[str, Any]
GANG = "node"
"""Name of the replicated job whose pods train (chart/charts/library/templates/jobset/_spec.tpl)."""
GPU_MODEL = "DPO_GPU_MODEL"
"""Variable of the gang's container that holds the chart's `gpuModel`."""
KUEUE = "kueue.x-k8s.io"
"""API group of Kueue, and the prefix of its labels and annotations."""


@dataclass(frozen=True, kw_only=True)
class ReplicatedJob:
    """One replicated job: `replicas` Jobs of `completions` pods, all from one pod template.

    Kueue calls it a PodSet.
    """

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
    def count(self) -> int:
        """Return the number of its pods."""
        return self.replicas * self.completions

    @property
    def container(self) -> Fields:
        """Return the only container."""
        container: Fields = self.pod["containers"][0]
        return container

    @property
    def grace(self) -> float:
        """Return the seconds from SIGTERM to SIGKILL; Kubernetes' default is 30."""
        return float(self.pod.get("terminationGracePeriodSeconds", 30))

    @property
    def env(self) -> dict[str, str]:
        """Return the container's plain variables, without those from a Secret or a field."""
        items = self.container.get("env") or []
        return {item["name"]: str(item["value"]) for item in items if "value" in item}

    @property
    def requests(self) -> dict[str, Decimal]:
        """Return the requested resources of one pod."""
        return pod_requests(self.pod)

    @property
    def total(self) -> dict[str, Decimal]:
        """Return the requested resources of all its pods."""
        return {name: amount * self.count for name, amount in self.requests.items()}


@dataclass(frozen=True, kw_only=True)
class JobSet:
    """A JobSet and the ConfigMaps rendered with it."""

    name: str
    labels: Mapping[str, str]
    subdomain: str
    max_restarts: int
    failure_rules: Sequence[Fields]
    """`failurePolicy.rules`."""
    jobs: tuple[ReplicatedJob, ...]
    config_maps: Mapping[str, Mapping[str, str]]
    """Their `data`, by name."""
    files: Mapping[str, Mapping[str, bytes]]
    """Their `data` and `binaryData` as files of a volume, by name."""
    manifest: Fields
    """The object as rendered."""

    @property
    def gang(self) -> ReplicatedJob:
        """Return the replicated job that trains.

        Raises:
            Problem: there is none of that name.
        """
        for job in self.jobs:
            if job.name == GANG:
                return job
        raise Problem(f"the JobSet {self.name} has no replicated job {GANG}: not of this chart")

    @property
    def gpu_model(self) -> str:
        """Return the chart's `gpuModel`; empty when the values do not name one."""
        return self.gang.env.get(GPU_MODEL, "")

    @property
    def queue(self) -> str:
        """Return Kueue's LocalQueue; empty when the run starts without Kueue."""
        return self.labels.get(f"{KUEUE}/queue-name", "")

    @property
    def priority(self) -> str:
        """Return Kueue's WorkloadPriorityClass; empty for none."""
        return self.labels.get(f"{KUEUE}/priority-class", "")


@dataclass(frozen=True, kw_only=True)
class Release:
    """All objects that `helm install` would create; the release has the JobSet's name."""

    objects: tuple[Fields, ...]
    jobset: JobSet

    @property
    def name(self) -> str:
        """Name of the release."""
        return self.jobset.name

    @property
    def gang(self) -> ReplicatedJob:
        """Return the replicated job that trains."""
        return self.jobset.gang

    @property
    def claims(self) -> dict[str, Fields]:
        """Return the PersistentVolumeClaims of the release, by name."""
        return self.of_kind("PersistentVolumeClaim")

    def of_kind(self, kind: str) -> dict[str, Fields]:
        """Return the release's objects of a kind, by name."""
        found = (item for item in self.objects if item.get("kind") == kind)
        return {item["metadata"]["name"]: item for item in found}

    def with_pods(self, specs: Mapping[str, Fields]) -> Release:
        """Return the release with other pod specs.

        ``specs``: name of a replicated job to its pod spec; the other jobs keep theirs.
        """
        jobs = tuple(replace(job, pod=specs.get(job.name, job.pod)) for job in self.jobset.jobs)
        return replace(self, jobset=replace(self.jobset, jobs=jobs))


def parse(text: str) -> JobSet:
    """Return the JobSet of a rendered manifest.

    Raises:
        Problem: the text is not YAML, or holds no JobSet or several.
    """
    return parse_release(text).jobset


def parse_release(text: str) -> Release:
    """Return all objects of a rendered manifest.

    Raises:
        Problem: the text is not YAML, or holds no JobSet or several.
    """
    try:
        objects = tuple(item for item in yaml.load_all(text, LOADER) if isinstance(item, dict))
    except yaml.YAMLError as error:
        raise Problem(f"the manifest is not YAML: {error}") from None
    found = [item for item in objects if item.get("kind") == "JobSet"]
    if len(found) != 1:
        raise Problem(f"the manifest holds {len(found)} JobSets; give one with exactly one")
    try:
        return Release(objects=objects, jobset=_jobset(found[0], objects))
    except KeyError as key:
        raise Problem(f"the JobSet has no {key}; give what `helm template` prints") from None


def _jobset(item: Fields, objects: Sequence[Fields]) -> JobSet:
    spec = item["spec"]
    name = item["metadata"]["name"]
    policy = spec.get("failurePolicy") or {}
    maps = [other for other in objects if other.get("kind") == "ConfigMap"]
    return JobSet(
        name=name,
        labels=item["metadata"].get("labels") or {},
        subdomain=(spec.get("network") or {}).get("subdomain") or name,
        max_restarts=int(policy.get("maxRestarts", 0)),
        failure_rules=policy.get("rules") or [],
        jobs=tuple(_job(job) for job in spec["replicatedJobs"]),
        config_maps={each["metadata"]["name"]: each.get("data") or {} for each in maps},
        files={each["metadata"]["name"]: _files(each) for each in maps},
        manifest=item,
    )


def _files(item: Fields) -> dict[str, bytes]:
    text = {name: value.encode() for name, value in (item.get("data") or {}).items()}
    try:
        binary = item.get("binaryData") or {}
        return text | {name: b64decode(value, validate=True) for name, value in binary.items()}
    except ValueError as error:
        raise Problem(
            f"binaryData of the ConfigMap {item['metadata']['name']} is not base64: {error}"
        ) from None


def _job(item: Fields) -> ReplicatedJob:
    spec = item["template"]["spec"]
    template = spec["template"]
    metadata = template.get("metadata") or {}
    return ReplicatedJob(
        name=item["name"],
        replicas=int(item.get("replicas", 1)),
        completions=int(spec.get("completions", 1)),
        depends_on=tuple(other["name"] for other in item.get("dependsOn") or []),
        failure_rules=(spec.get("podFailurePolicy") or {}).get("rules") or [],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        pod=template["spec"],
    )

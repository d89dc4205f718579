"""The release as Helm would submit it: its objects, and the groups of like pods of its JobSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import yaml

from scripts.doctor import quantity
from scripts.doctor.answer import Object
from scripts.doctor.kinds import KUEUE
from scripts.problem import Problem


@dataclass(frozen=True, kw_only=True)
class PodSet:
    """Like pods: one replicated job, which Kueue calls a PodSet."""

    name: str
    count: int
    template: Object
    """metadata and spec of each pod."""

    @property
    def spec(self) -> Object:
        """The pod's spec."""
        spec: Object = self.template["spec"]
        return spec

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return (self.template.get("metadata") or {}).get("annotations") or {}

    @property
    def requests(self) -> dict[str, Decimal]:
        """What one pod takes up."""
        return quantity.asked(self.spec)

    @property
    def total(self) -> dict[str, Decimal]:
        """What all of them take up."""
        return {name: amount * self.count for name, amount in self.requests.items()}


@dataclass(frozen=True, kw_only=True)
class Release:
    """What `helm install` would make."""

    name: str
    objects: tuple[Object, ...]
    jobset: Object
    pod_sets: tuple[PodSet, ...]

    @property
    def gang(self) -> PodSet:
        """The pods that train; the last replicated job, since stages come before it."""
        return self.pod_sets[-1]

    @property
    def queue(self) -> str:
        """The LocalQueue; empty without Kueue."""
        return self._label("queue-name")

    @property
    def priority(self) -> str:
        """The WorkloadPriorityClass; empty without one."""
        return self._label("priority-class")

    @property
    def claims(self) -> Mapping[str, Object]:
        """Claims that the release makes itself."""
        return {
            item["metadata"]["name"]: item
            for item in self.objects
            if item["kind"] == "PersistentVolumeClaim"
        }

    def own(self, kind: str) -> set[str]:
        """Names of the objects of a kind that the release makes itself."""
        return {item["metadata"]["name"] for item in self.objects if item["kind"] == kind}

    def _label(self, name: str) -> str:
        labels = self.jobset["metadata"].get("labels") or {}
        return str(labels.get(f"{KUEUE}/{name}", ""))


def parse(name: str, text: str) -> Release:
    """The release of a rendered manifest.

    Raises:
        Problem: the chart rendered no JobSet.
    """
    objects = tuple(item for item in yaml.safe_load_all(text) if item)
    found = [item for item in objects if item["kind"] == "JobSet"]
    if len(found) != 1:
        raise Problem(f"the chart rendered {len(found)} JobSets; one is expected")
    jobs = found[0]["spec"]["replicatedJobs"]
    return Release(
        name=name, objects=objects, jobset=found[0], pod_sets=tuple(_pod_set(job) for job in jobs)
    )


def _pod_set(job: Object) -> PodSet:
    spec = job["template"]["spec"]
    count = int(job.get("replicas", 1)) * int(spec.get("completions", 1))
    return PodSet(name=job["name"], count=count, template=spec["template"])


def admitted(release: Release, specs: Mapping[str, Object]) -> Release:
    """The release with the pods as the API server would keep them: defaults and tolerations in."""
    pod_sets = tuple(
        replace(each, template={**each.template, "spec": specs.get(each.name, each.spec)})
        for each in release.pod_sets
    )
    return replace(release, pod_sets=pod_sets)

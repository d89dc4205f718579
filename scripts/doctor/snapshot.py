"""All that was asked of the cluster, for the checks to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.doctor.answer import Answer, Object, named
from scripts.doctor.kinds import Kind
from scripts.doctor.right import Right


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The cluster as this user sees it, at one moment."""

    namespace: str
    version: Answer
    """/version."""
    groups: Answer
    """/apis."""
    schema: Answer
    """The OpenAPI schema of JobSet's group, which everybody may read, unlike the CRD."""
    kueue: Answer = field(default_factory=lambda: Answer(status=0))
    """The ConfigMap with Kueue's configuration."""
    jobset: Answer
    """Dry run of creating the JobSet."""
    lists: Mapping[str, Answer] = field(default_factory=dict)
    """By kind's plural."""
    objects: Mapping[tuple[str, str], Answer] = field(default_factory=dict)
    """By kind's plural and name: what is not listed, since a list shows more than is needed."""
    pods: Mapping[str, Answer] = field(default_factory=dict)
    """By PodSet: dry run of creating one of its pods."""
    rights: Mapping[Right, Answer] = field(default_factory=dict)
    """Reviews of what the user may do."""

    def all(self, kind: Kind) -> Answer:
        """The list of a kind."""
        return self.lists[kind.plural]

    def one(self, kind: Kind, name: str) -> Answer:
        """One object."""
        single = self.objects.get((kind.plural, name))
        return single or named(self.lists[kind.plural], name)

    def versions(self, group: str) -> list[str]:
        """Versions of an API group that are served; none without the group."""
        return [
            version["version"]
            for item in self.groups.content.get("groups") or []
            if item["name"] == group
            for version in item["versions"]
        ]

    def admitted(self) -> dict[str, Object]:
        """Specs of the pods that the API server accepted, with what it filled in."""
        return {name: answer.content["spec"] for name, answer in self.pods.items() if answer.found}

"""The answers of a cluster that the checks read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.doctor.api import DEVICE_CLASSES as CLASSES
from scripts.doctor.api import NO_ANSWER, Answer, Kind, Object
from scripts.quantity import DEVICE_CLASS


@dataclass(frozen=True, kw_only=True)
class Permission:
    """A verb on a kind in the release's namespace."""

    verb: str
    kind: Kind
    subresource: str = ""
    purpose: str
    """The command or action that needs it."""
    required: bool = True
    """False when the run starts without it."""

    def __str__(self) -> str:
        """Return it as in `create jobsets.jobset.x-k8s.io`."""
        name = self.kind.plural + (f".{self.kind.group}" if self.kind.group else "")
        return f"{self.verb} {name}" + (f"/{self.subresource}" if self.subresource else "")

    def review(self, namespace: str) -> Object:
        """Return the SelfSubjectAccessReview that asks for it."""
        attributes = {"namespace": namespace, "verb": self.verb, "group": self.kind.group}
        attributes |= {"resource": self.kind.plural, "subresource": self.subresource}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The cluster as this user sees it, at one moment."""

    namespace: str
    version: Answer
    """/version."""
    groups: Answer
    """/apis."""
    schema: Answer
    """The OpenAPI schema of JobSet's group, which every user may read, unlike the CRD."""
    kueue_config: Answer = NO_ANSWER
    """The ConfigMap with Kueue's configuration."""
    jobset: Answer
    """Dry run of creating the JobSet."""
    lists: Mapping[str, Answer] = field(default_factory=dict)
    """By the kind's plural."""
    objects: Mapping[tuple[str, str], Answer] = field(default_factory=dict)
    """By the kind's plural and the name: kinds that are not listed, since a list shows more than
    is needed."""
    pods: Mapping[str, Answer] = field(default_factory=dict)
    """Dry run of creating one pod, by replicated job."""
    permissions: Mapping[Permission, Answer] = field(default_factory=dict)
    """Access reviews of the user."""

    def listed(self, kind: Kind) -> Answer:
        """Return the list of a kind."""
        return self.lists[kind.plural]

    def named(self, kind: Kind, name: str) -> Answer:
        """Return one object."""
        return self.objects.get((kind.plural, name)) or self.lists[kind.plural].item(name)

    def by_class(self, resource: str) -> bool:
        """Return whether DRA gives a resource, by the name of a class or by one that it has."""
        names = {item["spec"].get("extendedResourceName") for item in self.listed(CLASSES).items}
        return resource.startswith(DEVICE_CLASS) or resource in names

    def versions(self, group: str) -> list[str]:
        """Return the served versions of an API group; none when the group is not served."""
        return [
            version["version"]
            for item in self.groups.content.get("groups") or []
            if item["name"] == group
            for version in item["versions"]
        ]

    def admitted(self) -> dict[str, Object]:
        """Return the pod specs that the API server accepted, with its defaults filled in."""
        return {name: answer.content["spec"] for name, answer in self.pods.items() if answer.found}

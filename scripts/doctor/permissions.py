"""What a user does in the course of a run, as rights that the cluster can be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.doctor.answer import Object
from scripts.doctor.kinds import CLAIMS, CONFIG_MAPS, JOBSETS, KUEUE, PODS, SECRETS, Kind

EVENTS = Kind(plural="events")
WORKLOADS = Kind(plural="workloads", group=KUEUE, version="v1beta2")


@dataclass(frozen=True, kw_only=True)
class Right:
    """A verb on a kind in the release's namespace."""

    verb: str
    kind: Kind
    subresource: str = ""
    purpose: str
    """What can't be done without it."""
    needed: bool = True
    """Whether nothing starts without it."""

    @property
    def words(self) -> str:
        """The right in words: `create jobsets.jobset.x-k8s.io`."""
        name = self.kind.plural + (f".{self.kind.group}" if self.kind.group else "")
        return f"{self.verb} {name}" + (f"/{self.subresource}" if self.subresource else "")

    def review(self, namespace: str) -> Object:
        """The question, as the API takes it."""
        attributes = {
            "namespace": namespace,
            "verb": self.verb,
            "group": self.kind.group,
            "resource": self.kind.plural,
            "subresource": self.subresource,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


def _rights(kind: Kind, purpose: str, *verbs: str, needed: bool = True) -> list[Right]:
    return [Right(verb=verb, kind=kind, purpose=purpose, needed=needed) for verb in verbs]


INSTALL = "helm install"
"""Helm 4 applies (get, create, patch) and keeps its record in Secrets (`HELM_DRIVER`)."""


def rights(*, claim: bool, queue: bool) -> list[Right]:
    """What a release needs.

    Args:
        claim: the release makes a claim.
        queue: it goes through Kueue.
    """
    found = [
        *_rights(SECRETS, INSTALL, "get", "list", "create", "update"),
        *_rights(CONFIG_MAPS, INSTALL, "get", "create", "patch"),
        *_rights(JOBSETS, INSTALL, "get", "create", "patch"),
        *(_rights(CLAIMS, INSTALL, "get", "create", "patch") if claim else []),
        *_rights(SECRETS, "helm uninstall", "delete", needed=False),
        *_rights(CONFIG_MAPS, "helm uninstall", "delete", needed=False),
        *_rights(JOBSETS, "helm uninstall", "delete", needed=False),
        *_rights(PODS, "helm test", "create", "delete", needed=False),
        *_rights(PODS, "seeing the run's pods", "get", "list", needed=False),
        *_rights(EVENTS, "seeing why a pod does not start", "list", needed=False),
        Right(verb="get", kind=PODS, subresource="log", purpose="kubectl logs", needed=False),
    ]
    if queue:
        found += _rights(WORKLOADS, "seeing why the queue waits", "list", needed=False)
    return found

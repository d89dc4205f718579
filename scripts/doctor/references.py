"""Secrets, ConfigMaps and claims that the pods name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scripts.doctor.answer import Object
from scripts.doctor.release import Release

CODE_SECRET = "code-secret"
"""The chart's volume of `code.existingSecret`."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A Secret or ConfigMap that a pod names, and the keys that it reads there."""

    name: str
    keys: frozenset[str] = frozenset()
    place: str
    """Where the pod names it, in words."""


def secrets(release: Release) -> tuple[Reference, ...]:
    """Secrets without which a pod does not start."""
    return _references(release, "secret")


def config_maps(release: Release) -> tuple[Reference, ...]:
    """ConfigMaps without which a pod does not start, but those that the release brings."""
    own = release.own("ConfigMap")
    return tuple(each for each in _references(release, "configMap") if each.name not in own)


def pull_secrets(release: Release) -> tuple[Reference, ...]:
    """Secrets that kubelet pulls the image with."""
    found = {
        Reference(name=item["name"], place="image.pullSecrets")
        for each in release.pod_sets
        for item in each.spec.get("imagePullSecrets") or []
    }
    return tuple(sorted(found, key=lambda each: each.name))


def claims(release: Release) -> dict[str, int]:
    """Claims that the pods mount, and how many pods do at once."""
    found: dict[str, int] = {}
    for each in release.pod_sets:
        for volume in each.spec.get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name:
                found[name] = max(found.get(name, 0), each.count)
    return found


def _references(release: Release, kind: str) -> tuple[Reference, ...]:
    found = {
        each
        for pod_set in release.pod_sets
        for each in (*_env(pod_set.spec, kind), *_volumes(pod_set.spec, kind))
    }
    return tuple(sorted(found, key=lambda each: (each.name, each.place)))


def _env(pod: Object, kind: str) -> Iterator[Reference]:
    containers = [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]
    for container in containers:
        for item in container.get("env") or []:
            source = (item.get("valueFrom") or {}).get(f"{kind}KeyRef")
            if source and not source.get("optional"):
                yield Reference(
                    name=source["name"],
                    keys=frozenset({source["key"]}),
                    place=f"env {item['name']}",
                )
        for item in container.get("envFrom") or []:
            source = item.get(f"{kind}Ref")
            if source and not source.get("optional"):
                yield Reference(name=source["name"], place="envFrom")


def _volumes(pod: Object, kind: str) -> Iterator[Reference]:
    key = "secretName" if kind == "secret" else "name"
    for volume in pod.get("volumes") or []:
        sources = [(volume.get(kind), key)]
        for item in (volume.get("projected") or {}).get("sources") or []:
            sources.append((item.get(kind), "name"))
        for source, name in sources:
            if source and not source.get("optional"):
                keys = frozenset(item["key"] for item in source.get("items") or [])
                yield Reference(name=source[name], keys=keys, place=f"volume {volume['name']}")

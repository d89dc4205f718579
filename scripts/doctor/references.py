"""Objects that the pods refer to: image, service account, Secrets, ConfigMaps and claims.

Of Secrets only names and keys are known here, never a value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from launchers.preflight.probes import beyond_torch
from launchers.upstream.versions import parse_version
from scripts.doctor.api import ACCOUNTS, CONFIG_MAPS, SECRETS, Answer, Object
from scripts.doctor.findings import Finding, fail, names, ok, unchecked, warn
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release

CODE_SECRET = "code-secret"
"""The chart's volume of `code.existingSecret`."""
PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A Secret or ConfigMap that a pod names, and the keys that it reads there."""

    name: str
    keys: frozenset[str] = frozenset()
    place: str
    """The part of the pod that names it, such as `env HF_TOKEN`."""


def secrets(release: Release) -> tuple[Reference, ...]:
    """Return the Secrets without which a pod does not start."""
    return _references(release, "secret")


def config_maps(release: Release) -> tuple[Reference, ...]:
    """Return the ConfigMaps without which a pod does not start, except the release's own."""
    own = release.of_kind("ConfigMap")
    return tuple(each for each in _references(release, "configMap") if each.name not in own)


def pull_secrets(release: Release) -> tuple[Reference, ...]:
    """Return the Secrets that the kubelet pulls the image with."""
    found = {
        Reference(name=item["name"], place="image.pullSecrets")
        for job in release.jobset.jobs
        for item in job.pod.get("imagePullSecrets") or []
    }
    return tuple(sorted(found, key=lambda each: each.name))


def mounted_claims(release: Release) -> dict[str, int]:
    """Return the claims that pods mount, with the largest number of pods that do at once."""
    found: dict[str, int] = {}
    for job in release.jobset.jobs:
        for volume in job.pod.get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name:
                found[name] = max(found.get(name, 0), job.count)
    return found


def inline_drivers(release: Release) -> set[str]:
    """Return the CSI drivers that the pods name without a claim."""
    volumes = (each for job in release.jobset.jobs for each in job.pod.get("volumes") or [])
    return {str(each["csi"]["driver"]) for each in volumes if "csi" in each}


def _references(release: Release, kind: str) -> tuple[Reference, ...]:
    found = {
        each
        for job in release.jobset.jobs
        for each in (*_env_references(job.pod, kind), *_volume_references(job.pod, kind))
    }
    return tuple(sorted(found, key=lambda each: (each.name, each.place)))


def _env_references(pod: Object, kind: str) -> Iterator[Reference]:
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


def _volume_references(pod: Object, kind: str) -> Iterator[Reference]:
    key = "secretName" if kind == "secret" else "name"
    for volume in pod.get("volumes") or []:
        projected = (volume.get("projected") or {}).get("sources") or []
        parts = [(item.get(kind), "name") for item in projected]
        for source, name in [(volume.get(kind), key), *parts]:
            if source and not source.get("optional"):
                keys = frozenset(item["key"] for item in source.get("items") or [])
                yield Reference(name=source[name], keys=keys, place=f"volume {volume['name']}")


def check_references(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check all Secrets and ConfigMaps without which a pod does not start."""
    return [
        *(_secret(release, snapshot, each) for each in secrets(release)),
        *(_pull_secret(snapshot, each) for each in pull_secrets(release)),
        *(_config_map(snapshot, each) for each in config_maps(release)),
    ]


def _secret(release: Release, snapshot: Snapshot, reference: Reference) -> Finding:
    subject = f"secret {reference.name}"
    answer = snapshot.named(SECRETS, reference.name)
    wanted = reference.keys
    if reference.place == f"volume {CODE_SECRET}":
        wanted = code_keys(release)
    literals = " ".join(f"--from-file={key}=FILE" for key in sorted(wanted))
    create = _create(snapshot, reference, "secret generic", literals)
    if unread := _unread("secret", subject, answer, reference, create):
        return unread
    data = answer.content.get("data") or {}
    missing = wanted - data.keys()
    if missing:
        found = f"has no key {names(missing)} ({reference.place}); it has {names(data)}"
        remedy = "add the key to the Secret, or correct its name in the values"
        return fail("secret-key-missing", subject, found, remedy)
    empty = {key for key in wanted if not data[key]}
    if empty:
        remedy = "create the Secret again, with a value"
        return fail("secret-key-empty", subject, f"key {names(empty)} is empty", remedy)
    return ok("secret-ok", subject, f"exists, with {names(wanted)}" if wanted else "exists")


def code_keys(release: Release) -> frozenset[str]:
    """Return the keys of `code.existingSecret`: for ssh a key and known hosts, otherwise a token.

    Source: the launcher's clone stage, which reads them.
    """
    url = release.gang.env.get("DPO_CODE_URL", "")
    is_ssh = url.startswith("ssh://") or re.match(r"[^/]+@[^/]+:", url)
    return frozenset({"ssh-privatekey", "known_hosts"} if is_ssh else {"token"})


def _pull_secret(snapshot: Snapshot, reference: Reference) -> Finding:
    subject = f"secret {reference.name}"
    answer = snapshot.named(SECRETS, reference.name)
    create = _create(snapshot, reference, "secret docker-registry")
    if unread := _unread("pull-secret", subject, answer, reference, create):
        return unread
    if answer.content.get("type") not in PULL_TYPES:
        found = f"is of type {answer.content.get('type')}, which the kubelet does not pull with"
        remedy = "create it with `kubectl create secret docker-registry`"
        return warn("pull-secret-type", subject, found, remedy)
    return ok("pull-secret-ok", subject, f"exists ({reference.place})")


def _config_map(snapshot: Snapshot, reference: Reference) -> Finding:
    subject = f"config map {reference.name}"
    answer = snapshot.named(CONFIG_MAPS, reference.name)
    create = _create(snapshot, reference, "configmap")
    if unread := _unread("config-map", subject, answer, reference, create):
        return unread
    data = {**(answer.content.get("data") or {}), **(answer.content.get("binaryData") or {})}
    missing = reference.keys - data.keys()
    if missing:
        found = f"has no key {names(missing)} ({reference.place})"
        return fail("config-map-key-missing", subject, found, "add the key")
    return ok("config-map-ok", subject, "exists")


def _unread(
    id: str, subject: str, answer: Answer, reference: Reference, create: str
) -> Finding | None:
    """Return the finding on an object that does not exist or could not be read; otherwise None."""
    if answer.absent:
        return fail(f"{id}-missing", subject, f"does not exist ({reference.place})", create)
    return None if answer.found else unchecked(id, subject, answer)


def _create(snapshot: Snapshot, reference: Reference, kind: str, options: str = "...") -> str:
    return f"kubectl -n {snapshot.namespace} create {kind} {reference.name} {options}".strip()


def check_account(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the pods' service account."""
    name = str(release.gang.pod.get("serviceAccountName") or "default")
    answer = snapshot.named(ACCOUNTS, name)
    subject = f"service account {name}"
    if answer.absent:
        remedy = f"kubectl create serviceaccount {name}"
        return [fail("account-missing", subject, "does not exist", remedy)]
    if not answer.found:
        return [unchecked("account", subject, answer)]
    return [ok("account-ok", subject, "exists")]


def check_image(release: Release) -> list[Finding]:
    """Check tag and pull policy; only the kubelet finds out whether a pull works.

    The doctor reads no image: it knows the release of torch only where the image's name or tag says
    it, as those of ms-swift do (``...-torch2.13.0-swift4.5.3``). In any other image the preflight
    of the pods refuses a wrong one (``preflight/probes.py: REQUIRED_PACKAGES``).
    """
    container = release.gang.container
    image, policy = str(container["image"]), str(container.get("imagePullPolicy", ""))
    name, _, tag = image.rpartition(":")
    swift, torch = (_named(package, image.rpartition("/")[2]) for package in ("swift", "torch"))
    beyond = beyond_torch(swift)
    if torch and _backend(release) == "megatron" and parse_version(torch) >= parse_version(beyond):
        found = f"{image} holds a torch with which every save of the Megatron trainer fails"
        return [fail("image-torch", "image", found, f"use an image with torch < {beyond}")]
    if "@sha256:" in image:
        return [ok("image-ok", "image", f"pinned by digest, pulled {policy}")]
    if "/" in tag or not name or tag == "latest":
        found = f"{image} is the image that was pushed last; some clusters refuse it"
        remedy = "set image.digest, or a tag that does not move"
        return [warn("image-latest", "image", found, remedy)]
    if policy == "Never":
        remedy = "load it onto every node, or set image.pullPolicy: IfNotPresent"
        return [warn("image-never-pulled", "image", f"{image} is never pulled", remedy)]
    found = f"tag {tag} may be pushed again"
    return [warn("image-tag", "image", found, "set image.digest to pin it")]


def _named(package: str, image: str) -> str:
    """Return the version that an image names after a package; empty if it names none."""
    match = re.search(rf"{package}(\d+(\.\d+)+)", image)
    return match.group(1) if match else ""


def _backend(release: Release) -> str:
    """Return the recipe's backend; empty if no ConfigMap holds a recipe."""
    for data in release.jobset.config_maps.values():
        if "recipe.yaml" in data:
            return str(yaml.safe_load(data["recipe.yaml"]).get("backend", ""))
    return ""

"""Secrets and ConfigMaps that the pods read; only names and keys, no value gets here."""

from __future__ import annotations

import re

from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, names, ok, unknown, warn
from scripts.doctor.kinds import CONFIG_MAPS, SECRETS
from scripts.doctor.references import CODE_SECRET, Reference, config_maps, pull_secrets, secrets
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen

PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


def check(release: Release, seen: Seen) -> list[Finding]:
    """All Secrets and ConfigMaps that a pod waits for."""
    return [
        *(_secret(release, seen, each) for each in secrets(release)),
        *(_pull(seen, each) for each in pull_secrets(release)),
        *(_config_map(seen, each) for each in config_maps(release)),
    ]


def _secret(release: Release, seen: Seen, reference: Reference) -> Finding:
    subject = f"secret {reference.name}"
    answer = seen.one(SECRETS, reference.name)
    wanted = reference.keys
    if reference.place == f"volume {CODE_SECRET}":
        wanted = code_keys(release)
    literals = " ".join(f"--from-file={key}=FILE" for key in sorted(wanted))
    create = f"kubectl -n {seen.namespace} create secret generic {reference.name} {literals}"
    if answer.absent:
        return fail(subject, f"does not exist ({reference.place})", create.strip())
    if not answer.found:
        return unknown(subject, answer)
    return _keys(subject, answer.content, wanted, reference) or ok(
        subject, f"exists, with {names(wanted)}" if wanted else "exists"
    )


def _keys(
    subject: str, content: Object, wanted: frozenset[str], reference: Reference
) -> Finding | None:
    data = content.get("data") or {}
    missing = wanted - data.keys()
    if missing:
        found = f"has no key {names(missing)} ({reference.place}); it has {names(data)}"
        return fail(subject, found, "add the key to the Secret, or write its name in the values")
    empty = {key for key in wanted if not data[key]}
    if empty:
        return fail(subject, f"key {names(empty)} is empty", "make the Secret again, with a value")
    return None


def code_keys(release: Release) -> frozenset[str]:
    """Keys of `code.existingSecret`: by ssh a key and the known hosts, else a token.

    Source: launchers/stages/git.py, which reads them.
    """
    env = release.gang.spec["containers"][0].get("env") or []
    url = next((item.get("value", "") for item in env if item["name"] == "DPO_CODE_URL"), "")
    is_ssh = url.startswith("ssh://") or re.match(r"[^/]+@[^/]+:", url)
    return frozenset({"ssh-privatekey", "known_hosts"} if is_ssh else {"token"})


def _pull(seen: Seen, reference: Reference) -> Finding:
    subject = f"secret {reference.name}"
    answer = seen.one(SECRETS, reference.name)
    if answer.absent:
        remedy = f"kubectl -n {seen.namespace} create secret docker-registry {reference.name} ..."
        return fail(subject, f"does not exist ({reference.place})", remedy)
    if not answer.found:
        return unknown(subject, answer)
    if answer.content.get("type") not in PULL_TYPES:
        found = f"is of type {answer.content.get('type')}, which kubelet does not pull with"
        return warn(subject, found, "create it with `kubectl create secret docker-registry`")
    return ok(subject, f"exists ({reference.place})")


def _config_map(seen: Seen, reference: Reference) -> Finding:
    subject = f"config map {reference.name}"
    answer = seen.one(CONFIG_MAPS, reference.name)
    if answer.absent:
        remedy = f"kubectl -n {seen.namespace} create configmap {reference.name} ..."
        return fail(subject, f"does not exist ({reference.place})", remedy)
    if not answer.found:
        return unknown(subject, answer)
    data = {**(answer.content.get("data") or {}), **(answer.content.get("binaryData") or {})}
    missing = reference.keys - data.keys()
    if missing:
        return fail(subject, f"has no key {names(missing)} ({reference.place})", "add the key")
    return ok(subject, "exists")

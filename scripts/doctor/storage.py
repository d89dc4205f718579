"""Whether the claims are there, bound, and writable from all nodes of the gang."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, names, ok, unknown, warn
from scripts.doctor.kinds import CLAIMS, CLASSES
from scripts.doctor.references import claims
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen

DEFAULT = "storageclass.kubernetes.io/is-default-class"
OWNER = "meta.helm.sh/release-name"
MANY = "ReadWriteMany"


def check(release: Release, seen: Seen) -> list[Finding]:
    """Every claim that the pods mount; other volumes can't be seen from here."""
    found: list[Finding] = []
    for name, pods in sorted(claims(release).items()):
        if name in release.claims:
            found += _new(release, release.claims[name], pods, seen)
        else:
            found.append(_existing(name, pods, seen))
    return found or [ok("workspace", "no claim: what it mounts can't be seen from here")]


def _existing(name: str, pods: int, seen: Seen) -> Finding:
    subject, answer = f"claim {name}", seen.one(CLAIMS, name)
    if answer.absent:
        others = names(item["metadata"]["name"] for item in seen.all(CLAIMS).items)
        found = f"does not exist in namespace {seen.namespace}"
        return fail(subject, found, f"write workspace.existingClaim (there are: {others}) or .pvc")
    if not answer.found:
        return unknown(subject, answer)
    status = answer.content.get("status") or {}
    modes = status.get("accessModes") or answer.content["spec"].get("accessModes") or []
    if pods > 1 and MANY not in modes:
        return _narrow(subject, modes, pods)
    if status.get("phase") == "Bound":
        return ok(subject, f"bound, {', '.join(modes)}")
    if _waits(answer.content, seen):
        return ok(subject, "will be bound when the first pod starts")
    found = f"is {status.get('phase', 'not bound')}: no volume fits it yet"
    return fail(subject, found, f"kubectl -n {seen.namespace} describe pvc {name}")


def _narrow(subject: str, modes: Sequence[str], pods: int) -> Finding:
    found = f"is {', '.join(modes)}, and {pods} pods on different nodes write to it"
    return fail(subject, found, f"use a claim with accessModes: [{MANY}]")


def _new(release: Release, claim: Object, pods: int, seen: Seen) -> list[Finding]:
    name, spec = claim["metadata"]["name"], claim["spec"]
    subject = f"claim {name}"
    if pods > 1 and MANY not in spec["accessModes"]:
        return [_narrow(subject, spec["accessModes"], pods)]
    there = seen.one(CLAIMS, name)
    if there.found:
        owner = (there.content["metadata"].get("annotations") or {}).get(OWNER)
        if owner != release.name:
            remedy = f"workspace: {{existingClaim: {name}, pvc: null}}"
            return [fail(subject, "exists already, not from this release", remedy)]
        return [ok(subject, "kept from an earlier run of this name")]
    return [_class(spec.get("storageClassName"), seen)]


def _class(name: str | None, seen: Seen) -> Finding:
    answer = seen.all(CLASSES)
    subject = f"storage class {name or '(default)'}"
    if not answer.found:
        return unknown(subject, answer)
    there = names(item["metadata"]["name"] for item in answer.items)
    remedy = f"write workspace.pvc.storageClassName; there are: {there}"
    if name and not seen.one(CLASSES, name).found:
        return fail(subject, "does not exist", remedy)
    defaults = [item for item in answer.items if _annotations(item).get(DEFAULT) == "true"]
    if not name and not defaults:
        return fail(subject, "the cluster has no default one", remedy)
    if name:
        return warn(
            subject, "exists; whether it can do ReadWriteMany is not to be seen", "ask its owner"
        )
    return warn(subject, f"is {defaults[0]['metadata']['name']}", "write the class by name")


def _waits(claim: Object, seen: Seen) -> bool:
    """Whether the claim's class binds with the first pod only."""
    name = claim["spec"].get("storageClassName")
    classes = [item for item in seen.all(CLASSES).items if item["metadata"]["name"] == name]
    return any(each.get("volumeBindingMode") == "WaitForFirstConsumer" for each in classes)


def _annotations(item: Object) -> dict[str, str]:
    return dict(item["metadata"].get("annotations") or {})

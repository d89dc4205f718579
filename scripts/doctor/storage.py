"""Claims that the pods mount: existing, bound, and writable from all nodes of the gang."""

import re
from collections.abc import Sequence

from scripts.doctor.api import CLAIMS, CLASSES, DRIVERS, Object
from scripts.doctor.findings import Finding, fail, names, ok, unchecked, warn
from scripts.doctor.references import inline_drivers, mounted_claims
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
HELM_RELEASE = "meta.helm.sh/release-name"
SHARED = "ReadWriteMany"
_ONE_NODE = re.compile(
    r"(ebs|disk)\.csi\.(aws|azure)\.com|pd\.csi\.storage\.gke\.io|blockvolume\.csi\.oraclecloud\.com"
    r"|k8s\.io/minikube-hostpath|kubernetes\.io/(aws-ebs|azure-disk|gce-pd)"
    r"|cinder\.csi\.openstack\.org|(topolvm|openebs)\.io(/local)?|local\.csi\.\S+"
)
"""Provisioners whose volumes no two nodes write to, by the documents of each driver."""
_LOCAL_PATH = "rancher.io/local-path"
"""Makes folders of one node, or with ``sharedFileSystemPath`` of a file system of all: its
configuration, which is in another namespace, is not read."""
_CLAIM = (
    "use a claim of a volume: workspace.existingClaim, or persistentVolumeClaim in extraVolumes"
)


def check_claims(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check every claim that the pods mount; other volumes are not visible to the API server."""
    found: list[Finding] = []
    for name, pods in sorted(mounted_claims(release).items()):
        if name in release.claims:
            found += _new_claim(release, release.claims[name], pods, snapshot)
        else:
            found.append(_existing_claim(name, pods, snapshot))
    text = "not a claim, so it can't be checked from here"
    return found or [ok("workspace-no-claim", "workspace", text)]


def check_drivers(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that the CSI drivers of volumes without a claim are there and mount such volumes."""
    found = []
    for name in sorted(inline_drivers(release)):
        subject, answer = f"CSI driver {name}", snapshot.named(DRIVERS, name)
        modes = (answer.content.get("spec") or {}).get("volumeLifecycleModes") or ["Persistent"]
        if answer.absent:
            found.append(fail("csi-driver-missing", subject, "is not in this cluster", _CLAIM))
        elif not answer.found:
            found.append(unchecked("csi-driver", subject, answer))
        elif "Ephemeral" not in modes:
            text = "mounts claims alone, and the pods would wait for their volume"
            found.append(fail("csi-driver-inline", subject, text, _CLAIM))
        else:
            found.append(ok("csi-driver-ok", subject, "mounts volumes without a claim"))
    return found


def _existing_claim(name: str, pods: int, snapshot: Snapshot) -> Finding:
    subject, answer = f"claim {name}", snapshot.named(CLAIMS, name)
    if answer.absent:
        others = names(item["metadata"]["name"] for item in snapshot.listed(CLAIMS).items)
        found = f"does not exist in namespace {snapshot.namespace}"
        remedy = f"set workspace.existingClaim (there are: {others}) or .pvc"
        return fail("claim-missing", subject, found, remedy)
    if not answer.found:
        return unchecked("claim", subject, answer)
    status = answer.content.get("status") or {}
    modes = status.get("accessModes") or answer.content["spec"].get("accessModes") or []
    if pods > 1 and SHARED not in modes:
        return _not_shared(subject, modes, pods)
    if status.get("phase") == "Bound":
        return ok("claim-ok", subject, f"bound, {', '.join(modes)}")
    if _binds_late(answer.content, snapshot):
        return ok("claim-ok", subject, "will be bound when the first pod starts")
    found = f"is {status.get('phase', 'not bound')}: no volume fits it yet"
    remedy = f"kubectl -n {snapshot.namespace} describe pvc {name}"
    return fail("claim-unbound", subject, found, remedy)


def _not_shared(subject: str, modes: Sequence[str], pods: int) -> Finding:
    found = f"is {', '.join(modes)}, and {pods} pods on different nodes write to it"
    return fail("claim-not-shared", subject, found, f"use a claim with accessModes: [{SHARED}]")


def _new_claim(release: Release, claim: Object, pods: int, snapshot: Snapshot) -> list[Finding]:
    name, spec = claim["metadata"]["name"], claim["spec"]
    subject = f"claim {name}"
    if pods > 1 and SHARED not in spec["accessModes"]:
        return [_not_shared(subject, spec["accessModes"], pods)]
    existing = snapshot.named(CLAIMS, name)
    if existing.found:
        owner = (existing.content["metadata"].get("annotations") or {}).get(HELM_RELEASE)
        if owner != release.name:
            found = "exists already, not from this release"
            remedy = f"workspace: {{existingClaim: {name}, pvc: null}}"
            return [fail("claim-of-other-release", subject, found, remedy)]
        return [ok("claim-kept", subject, "kept from an earlier run of this name")]
    if not existing.absent:
        return [unchecked("claim", subject, existing)]
    if spec.get("volumeName") and spec.get("storageClassName") == "":
        text = f"binds to volume {spec['volumeName']}, without a class"
        return [ok("claim-volume", subject, text)]
    return [_storage_class(spec.get("storageClassName"), pods, snapshot)]


def _storage_class(name: str | None, pods: int, snapshot: Snapshot) -> Finding:
    answer = snapshot.listed(CLASSES)
    subject = f"storage class {name or '(default)'}"
    if not answer.found:
        return unchecked("storage-class", subject, answer)
    existing = names(item["metadata"]["name"] for item in answer.items)
    remedy = f"set workspace.pvc.storageClassName; there are: {existing}"
    if name and not snapshot.named(CLASSES, name).found:
        return fail("storage-class-missing", subject, "does not exist", remedy)
    defaults = [item for item in answer.items if _annotations(item).get(DEFAULT_CLASS) == "true"]
    if not name and not defaults:
        return fail("storage-class-no-default", subject, "the cluster has no default one", remedy)
    used = snapshot.named(CLASSES, name).content if name else defaults[0]
    if _ONE_NODE.fullmatch(str(used.get("provisioner", ""))) and pods > 1:
        found = f"makes disks of one node ({used['provisioner']}), and {pods} pods write to it"
        return fail("storage-class-one-node", subject, found, remedy)
    if used.get("provisioner") == _LOCAL_PATH and pods > 1:
        found = f"serves {pods} pods by a file system of all nodes alone"
        remedy = "check that config.json of local-path-config has sharedFileSystemPath"
        return warn("storage-class-local-path", subject, found, remedy)
    if name:
        found = f"exists; the API does not show whether it supports {SHARED}"
        return warn("storage-class-modes", subject, found, "ask its administrator")
    found = f"is {defaults[0]['metadata']['name']}"
    return warn("storage-class-default", subject, found, "set the class by name")


def _binds_late(claim: Object, snapshot: Snapshot) -> bool:
    """Return whether the claim's class binds when the first pod starts."""
    name = claim["spec"].get("storageClassName")
    classes = [item for item in snapshot.listed(CLASSES).items if item["metadata"]["name"] == name]
    return any(each.get("volumeBindingMode") == "WaitForFirstConsumer" for each in classes)


def _annotations(item: Object) -> dict[str, str]:
    return dict(item["metadata"].get("annotations") or {})

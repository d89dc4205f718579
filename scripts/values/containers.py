"""Init containers, volumes and mounts of values: names used twice, and names that are missing."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launchers.refusal import Refusal

Values = Mapping[str, Any]
_BUCKETS, _MOUNTS_BUCKETS = "gcsfuse.csi.storage.gke.io", "gke-gcsfuse/volumes"
_VOLUMES = (
    "launchers", "package", "workspace", "shm", "tmp", "release", "local-checkpoints",
    "agent-token", "events-token",
)  # fmt: skip
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KEYS = {"/dev/shm": "sharedMemory.sizeLimit", "/tmp": "tmp.sizeLimit"}
"""Folders of the chart's own volumes, which users mount for their size."""
_FILES = "/etc/megatron-dpo"
"""Folder of the chart's files in the pods."""


def twice(items: Iterable[str | None], taken: Iterable[str] = ()) -> Iterator[tuple[int, str]]:
    """Yield position and name of each item that was there before.

    >>> list(twice(["a", "b", "a", "c"], taken=["c"]))
    [(2, 'a'), (3, 'c')]
    """
    seen = set(taken)
    for position, name in enumerate(items):
        if name and name in seen:
            yield position, name
        seen.add(name or "")


def refusals(values: Values, network: Values) -> Iterator[Refusal]:
    """Yield what is wrong; ``network`` is what ``fabric`` returns for the values."""
    for level, key in ((values["network"], "initContainers"), (values, "extraInitContainers")):
        containers = level[key] or ()
        path = key if level is values else f"network.{key}"
        names = (each["name"] for each in containers)
        for number, name in twice(names, taken=("launcher", "restart-agent")):
            yield _in_use("init-container-name", f"{path}[{number}].name", name, "name")
        for number, container in enumerate(containers):
            yield from _container(f"{path}[{number}]", container, values["resourceClaims"])
    volumes = {f"extraVolumes[{n}]": each for n, each in enumerate(values["extraVolumes"])}
    for path, volume in {"workspace": values["workspace"], **volumes}.items():
        yield from _volume(path, volume, values["podAnnotations"])
    yield from _mounts(values, network)


def _in_use(id: str, path: str, name: str, what: str) -> Refusal:
    use = _KEYS.get(name, f"another {what}")
    return Refusal(id=id, path=path, says=f"{name} is in use; use {use}")


def _container(path: str, container: Values, claims: Iterable[Values]) -> Iterator[Refusal]:
    for _, name in twice(each["name"] for each in container.get("env") or ()):
        says = f"{name} is set twice; remove one of them"
        yield Refusal(id="init-container-env", path=f"{path}.env", says=says)
    for number, name in twice(each.get("name") for each in container.get("ports") or ()):
        yield _in_use("init-container-port", f"{path}.ports[{number}].name", name, "name")
    mounts = container.get("volumeMounts") or ()
    for number, folder in twice(each["mountPath"] for each in mounts):
        where = f"{path}.volumeMounts[{number}].mountPath"
        yield _in_use("mount-path-twice", where, folder, "path")
    known, used = {each["name"] for each in claims}, set[tuple[str, str]]()
    for number, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
        name, request = claim["name"], claim.get("request") or ""
        where = f"{path}.resources.claims[{number}].name"
        if name not in known:
            says = f'"{name}" is not in resourceClaims; add it there'
            yield Refusal(id="claim-unknown", path=where, says=says)
        if used & {(name, request), (name, "")}:
            yield Refusal(id="claim-name", path=where, says=f"{name} is in use; remove it")
        used.add((name, request))


def _volume(path: str, volume: Values, annotations: Values) -> Iterator[Refusal]:
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
    source, reference = claim.get("dataSource"), claim.get("dataSourceRef")
    if source and reference and source != reference:
        says = "differs from dataSourceRef, and Kubernetes requires one source; remove one of them"
        where = f"{path}.ephemeral.volumeClaimTemplate.spec.dataSource"
        yield Refusal(id="volume-data-source", path=where, says=says)
    sources = (volume.get("projected") or {}).get("sources") or ()
    parts = [part for source in sources for part in source.values() if part]
    files = (item.get("path") for part in parts for item in part.get("items") or [part])
    for _, file in twice(files):
        says = f"the path {file} is in use; use another path"
        yield Refusal(id="projected-path", path=f"{path}.projected", says=says)
    is_bucket = (volume.get("csi") or {}).get("driver") == _BUCKETS
    if is_bucket and str(annotations.get(_MOUNTS_BUCKETS)).lower() != "true":
        says = (
            "a bucket, which GKE mounts only in annotated pods: they would wait for the volume; "
            f'set podAnnotations: {{{_MOUNTS_BUCKETS}: "true"}}'
        )
        yield Refusal(id="gcsfuse-annotation", path=f"{path}.csi", says=says)


def _mounts(values: Values, network: Values) -> Iterator[Refusal]:
    """Yield volumes of one name, and mounts of the launcher at one path or of no volume."""
    secret = values["code"]["existingSecret"]
    taken = {*_VOLUMES, *(["code-secret"] if secret else [])}
    taken |= {each["name"] for each in network["volumes"]}
    own = [each["name"] for each in values["extraVolumes"]]
    for _, name in twice(own, taken):
        says = f"the name {name} is in use; use another one"
        yield Refusal(id="volume-name", path="extraVolumes", says=says)
    folders = ["/opt/launchers", f"{_FILES}/launchers", f"{_FILES}/release", *_KEYS]
    folders += ["/local-checkpoints", values["workspace"]["mountPath"]]
    folders += [_ACCOUNT] if values["monitoring"]["events"] else []
    folders += [f"{_FILES}/code-secret"] if secret else []
    folders += [posixpath.normpath(each["mountPath"]) for each in network["volumeMounts"]]
    mounts = values["extraVolumeMounts"]
    at = [posixpath.normpath(each["mountPath"]) for each in mounts]
    used = [folder for _, folder in twice(at, folders)]
    inside = ("/opt/launchers/", f"{_FILES}/launchers/")
    for folder in (*used, *(each for each in at if each.startswith(inside))):
        yield _in_use("mount-path", "extraVolumeMounts", folder, "path")
    for name in (each["name"] for each in mounts):
        if name not in {*taken, *own}:
            says = f"there is no volume {name}; add it to extraVolumes"
            yield Refusal(id="volume-mount", path="extraVolumeMounts", says=says)

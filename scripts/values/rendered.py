"""What Kubernetes would refuse of rendered objects: amounts, references to variables, sizes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import util
from typing import Any

from launchers.refusal import Refusal
from scripts.manifest import GANG, Release, parse_release
from scripts.quantity import is_resource, parse_quantity
from scripts.values.containers import twice
from scripts.values.variables import text

Values = Mapping[str, Any]
_REFERENCE = re.compile(r"\$\(([-A-Za-z0-9_.]+)\)")
_ANNOTATIONS, _OBJECT, _FILES, _WORD = 250_000, 1_500_000, 2**20, 131_000
"""Bytes: 256 KiB of annotations of an object (``TotalAnnotationSizeLimitB``), of which controllers
take some; 1.5 MiB of an object (etcd, ``--max-request-bytes``); 1 MiB in a ConfigMap; 128 KiB in
one variable or argument (``MAX_ARG_STRLEN``)."""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A rendered pod."""

    path: str
    """Key of the resources of its launcher."""
    spec: Values
    annotations: Values

    @property
    def launcher(self) -> Values:
        """Return the only container."""
        found: Values = self.spec["containers"][0]
        return found


def refusals(values: Values, manifests: str) -> list[Refusal]:
    """Return what is wrong with the objects that the chart renders of values.

    Args:
        values: with the chart's defaults.
        manifests: the output of ``helm template``.
    """
    release = parse_release(manifests)
    pods, found = _pods(release), list[Refusal]()
    for pod in pods:
        found += _launcher(pod, values)
        for path, container in _init_containers(pod, values):
            found += _container(path, container)
    if values["stages"]["placement"] == "inline":  # no pod has them
        one, other = (values["stages"]["resources"].get(s) or {} for s in ("requests", "limits"))
        both = {"requests": {**other, **one}, "limits": {**one, **other}}
        found += _amounts("stages.resources", both)
    found += [*_sizes(release, values, pods), *_names(release, values)]
    return list(dict.fromkeys(found))


def _pods(release: Release) -> list[Pod]:
    """Return the gang's pod, then one of a stage and the test's if there are any."""
    paths = {GANG: "resources", "clone": "stages.resources"}
    jobs = sorted((j for j in release.jobset.jobs if j.name in paths), key=lambda j: j.name != GANG)
    found = [Pod(path=paths[j.name], spec=j.pod, annotations=j.annotations) for j in jobs]
    tests = [each for each in release.objects if each.get("kind") == "Pod"][:1]
    return found + [Pod(path="test.resources", spec=t["spec"], annotations={}) for t in tests]


def _init_containers(pod: Pod, values: Values) -> Iterator[tuple[str, Values]]:
    """Yield the path and each init container; those of the profile have the network's path."""
    given = {
        each["name"]: f"{key}[{number}]"
        for key, containers in (
            ("network.initContainers", values["network"]["initContainers"]),
            ("extraInitContainers", values["extraInitContainers"]),
        )
        for number, each in enumerate(containers or ())
    }
    for container in pod.spec.get("initContainers") or ():
        if container["name"] != "restart-agent":
            yield given.get(container["name"], "network.profile"), container


def _launcher(pod: Pod, values: Values) -> Iterator[Refusal]:
    container, gpu = pod.launcher, values["gpuResource"]
    resources = container.get("resources") or {}
    sides = {side: resources.get(side) or {} for side in ("requests", "limits")}
    yield from _amounts(
        pod.path, {s: {k: v for k, v in each.items() if k != gpu} for s, each in sides.items()}
    )
    limits = sides["limits"]
    memory = limits.get("memory") or sides["requests"].get("memory")
    shared = values["sharedMemory"]["sizeLimit"]
    if memory and pod.path != "test.resources" and not _is_less(shared, memory):
        says = (
            f"memory {memory} is not more than sharedMemory.sizeLimit {shared}, which counts as "
            "memory; set more memory or a smaller sizeLimit"
        )
        yield Refusal(id="memory-shared", path=pod.path, says=says)
    huge = [name for name in limits if name.startswith("hugepages-")]
    yield from _huge_pages(pod, values["extraVolumes"], huge)
    if container.get("envFrom"):  # the keys of a Secret are not known here
        return
    variables = container.get("env") or []
    names = [each["name"] for each in variables]
    for name, other, position in _references(variables):
        if other not in names:
            says = (
                f"$({other}) is not a variable of the pod, and variables of the image cannot be "
                f"referred to; set {other} too, or write $$({other}) for this text"
            )
            yield Refusal(id="env-reference", path=f"extraEnv.{name}", says=says)
        elif names.index(other) >= position:
            says = f"$({other}) refers back to {name}; remove the cycle"
            yield Refusal(id="env-cycle", path=f"extraEnv.{name}", says=says)
    yield from _sub_paths("extraVolumeMounts", values["extraVolumeMounts"], names)


def _huge_pages(pod: Pod, extra: Sequence[Values], given: Sequence[str]) -> Iterator[Refusal]:
    """Yield volumes of huge pages that the pod does not have: the kubelet could not mount them."""
    for number, volume in enumerate(extra):
        medium = (volume.get("emptyDir") or {}).get("medium") or ""
        size = medium.removeprefix("HugePages").removeprefix("-")
        fits = f"hugepages-{size}" in given if size else len(given) == 1
        if medium.startswith("HugePages") and not fits:
            listed = " and ".join(name.removeprefix("hugepages-") for name in given) or "none"
            says = (
                f"{medium} requires huge pages of {size or 'one size'}, and {pod.path} has "
                f"{listed}; set {pod.path}.limits.hugepages-{size or '2Mi'}, or another medium"
            )
            path = f"extraVolumes[{number}].emptyDir.medium"
            yield Refusal(id="volume-huge-pages", path=path, says=says)


def _container(path: str, container: Values) -> Iterator[Refusal]:
    yield from _amounts(f"{path}.resources", container.get("resources") or {}, is_own=True)
    if container.get("envFrom"):
        return
    variables = container.get("env") or []
    names = [each["name"] for each in variables]
    for name, other, position in _references(variables):
        if other not in names[:position]:
            says = (
                f"$({other}) is not a variable above it; set {other} before {name}, or write "
                f"$$({other}) for this text"
            )
            yield Refusal(id="init-container-reference", path=f"{path}.env.{name}", says=says)
    for field in ("command", "args"):
        for number, word in enumerate(container.get(field) or ()):
            for other in _named(word):
                # a shell would run a command of that name, which has small letters
                if re.fullmatch("[A-Z_][A-Z0-9_]*", other) and not _is_known(other, names):
                    says = (
                        f"$({other}) is not a variable of the container; set it in env, or write "
                        f"$$({other}) for this text"
                    )
                    where = f"{path}.{field}[{number}]"
                    yield Refusal(id="init-container-reference", path=where, says=says)
    yield from _sub_paths(f"{path}.volumeMounts", container.get("volumeMounts") or (), names)


def _sub_paths(path: str, mounts: Sequence[Values], names: Sequence[str]) -> Iterator[Refusal]:
    for number, mount in enumerate(mounts):
        for name in _named(mount.get("subPathExpr")):
            if name not in names:
                says = (
                    f"$({name}) is not a variable of the container, which could not start; set "
                    "it, e.g. from metadata.name"
                )
                where = f"{path}[{number}].subPathExpr"
                yield Refusal(id="sub-path-variable", path=where, says=says)


def _named(word: object) -> list[str]:
    """Return the names in $(NAME) of a text; $$(NAME) is text."""
    return _REFERENCE.findall(word.replace("$$", "")) if isinstance(word, str) else []


def _is_known(name: str, names: Sequence[str]) -> bool:
    return name in names or name.startswith("KUBERNETES_")


def _references(variables: Sequence[Values]) -> Iterator[tuple[str, str, int]]:
    """Yield name, reference and position of each variable that refers to another."""
    for position, variable in enumerate(variables):
        for other in _named(variable.get("value")):
            if not other.startswith("KUBERNETES_"):
                yield variable["name"], other, position


def _amounts(path: str, resources: Values, *, is_own: bool = False) -> Iterator[Refusal]:
    """Yield amounts that the API server refuses.

    Args:
        path: of the resources.
        resources: requests and limits.
        is_own: no amount is derived: the names are the user's, or the profile's.
    """
    requests, limits = (resources.get(side) or {} for side in ("requests", "limits"))
    names = sorted({*requests, *limits})
    for name in names:
        request, limit = (text(each.get(name, "")) for each in (requests, limits))
        is_huge = name.startswith("hugepages-")
        if is_own and not is_resource(name):
            says = f'"{name}" is not a resource; use cpu, memory or a name such as rdma/hca'
            yield Refusal(id="resource-name", path=path, says=says)
        elif "/" in name or is_huge:
            if (request or limit) != limit or not _is_whole(name, limit):
                says = (
                    f"{name} has request {request or '(none)'} and limit {limit or '(none)'}; set "
                    "one whole number, under limits"
                )
                yield Refusal(id="resource-whole", path=path, says=says)
        elif request and limit and _is_less(limit, request):
            says = f"{request} is more than the limit {limit}; set a smaller request or a larger "
            where = f"{path}.requests.{name}"
            yield Refusal(id="resource-limit", path=where, says=f"{says}limit")
        if is_own and is_huge and not {"cpu", "memory"} & {*names}:
            says = f"{name} requires cpu or memory, and none is set; set limits.memory too"
            yield Refusal(id="resource-huge-alone", path=path, says=says)


def _is_whole(name: str, limit: str) -> bool:
    if "/" in name:
        return limit.isdigit()
    page = name.removeprefix("hugepages-")
    return bool(limit) and not (_is_less("0", limit) and _number(limit) % _number(page))


def _number(amount: object) -> Decimal:
    return parse_quantity(amount)


def _is_less(one: object, other: object) -> bool:
    """Return whether an amount is less than another; false without the Kubernetes client."""
    if one == other or util.find_spec("kubernetes") is None:
        return False
    return _number(one) < _number(other)


def _names(release: Release, values: Values) -> Iterator[Refusal]:
    """Yield objects of one name, and the address of JobSet's coordinator if it is no label."""
    extra = [_id(each) for each in values["extraObjects"]]
    chart = Counter(map(_id, release.objects)) - Counter(extra)
    # JobSet makes the Service
    for number, name in twice(extra, {*chart, f"Service/{release.name}"}):
        says = f"{name} is in use; use another name"
        yield Refusal(id="extra-object-name", path=f"extraObjects[{number}]", says=says)
    if leader := (values["jobset"]["spec"] or {}).get("coordinator"):
        address = f"{release.name}-node-0-{leader.get('podIndex') or 0}.{release.name}"
        if len(address) > 63:
            says = (
                f"{address} has {len(address)} characters, and a label's value may have 63; use a "
                "shorter release name"
            )
            path = "jobset.spec.coordinator"
            yield Refusal(id="release-name-coordinator", path=path, says=says)


def _id(item: Values) -> str:
    meta = item["metadata"]
    space = f" in {meta['namespace']}" if meta.get("namespace") else ""
    return f"{item['kind']}/{meta['name']}{space}"


def _sizes(release: Release, values: Values, pods: Sequence[Pod]) -> Iterator[Refusal]:
    """Yield what Kubernetes or Linux would not store."""
    jobset = release.jobset.manifest
    annotated = {
        "jobset.annotations": values["jobset"]["annotations"],
        "serviceAccount.annotations": values["serviceAccount"]["annotations"],
        "podAnnotations": pods[0].annotations,
    }
    for number, each in enumerate(values["extraObjects"]):
        path = f"extraObjects[{number}]"
        annotated[f"{path}.metadata.annotations"] = each["metadata"].get("annotations")
        yield from _object(path, each, "keep it below 1500000 bytes")
        yield from _config_map(path, each, "divide it, or put the files on the workspace")
    for path, notes in annotated.items():
        size = sum(len(name) + len(text(value)) for name, value in (notes or {}).items())
        if size > _ANNOTATIONS:
            says = (
                f"{size} bytes with those of the chart, and Kubernetes stores 256 KiB of "
                "annotations of an object; keep them below 250000 bytes, e.g. in a ConfigMap"
            )
            yield Refusal(id="size-annotations", path=path, says=says)
    for name, each in release.of_kind("ConfigMap").items():
        if "recipe.yaml" in (each.get("data") or {}) and name.startswith(release.name):
            use = "put long values into files of the clone or the workspace"
            yield from _config_map("recipe", each, use)
    use = "put long texts into a ConfigMap or files of the workspace"
    yield from _object("values", jobset, use)
    yield from _words(values, pods)


def _object(path: str, item: Values, use: str) -> Iterator[Refusal]:
    size = len(json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode())
    if size > _OBJECT:
        says = f"{size} bytes, and Kubernetes stores 1.5 MiB of an object; {use}"
        yield Refusal(id="size-object", path=path, says=says)


def _config_map(path: str, item: Values, use: str) -> Iterator[Refusal]:
    size = sum(len(str(each).encode()) for each in (item.get("data") or {}).values())
    size += sum(len(str(each)) * 3 // 4 for each in (item.get("binaryData") or {}).values())
    if item["kind"] == "ConfigMap" and size > _FILES:
        says = f"makes {size} bytes, and Kubernetes stores 1 MiB in a ConfigMap; {use}"
        yield Refusal(id="size-config-map", path=path, says=says)


def _words(values: Values, pods: Sequence[Pod]) -> Iterator[Refusal]:
    """Yield variables and arguments that Linux does not pass."""
    words = {f"recipe.args.{k}": _longest(v) + len(k) for k, v in values["recipe"]["args"].items()}
    own = values["network"]["env"]
    for each in pods[0].launcher.get("env") or ():
        level = "network.env" if each["name"] in own else "extraEnv"
        words[f"{level}.{each['name']}"] = len(each["name"]) + _longest(each.get("value"))
    for path, container in _init_containers(pods[0], values):
        for each in container.get("env") or ():
            words[f"{path}.env.{each['name']}"] = len(each["name"]) + _longest(each.get("value"))
        for field in ("args", "command"):
            for number, word in enumerate(container.get(field) or ()):
                words[f"{path}.{field}[{number}]"] = _longest(word)
    for path, size in words.items():
        if size > _WORD:
            says = (
                f"{size} bytes, and Linux passes 128 KiB as one variable or argument; put it into "
                "a file, e.g. of a ConfigMap"
            )
            yield Refusal(id="size-word", path=path, says=says)


def _longest(value: object) -> int:
    """Return the bytes of a value, or of the longest of a list."""
    items = value if isinstance(value, list) else [value]
    texts = (each if isinstance(each, str) else json.dumps(each) for each in items)
    return max((len(each.encode()) for each in texts), default=0)

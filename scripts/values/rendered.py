"""What Kubernetes would refuse of rendered objects: amounts, references to variables, sizes."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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


def refusals(values: Values, manifests: str) -> list[Refusal]:
    """Return what is wrong with the objects that the chart renders of values.

    ``values`` have the chart's defaults.
    """
    release, found = parse_release(manifests), list[Refusal]()
    for path, pod in _pods(release).items():
        found += _launcher(path, pod["containers"][0], values)
        for where, container in _init_containers(pod, values):
            found += _container(where, container)
    if values["stages"]["placement"] == "inline":  # no pod has them
        one, other = (values["stages"]["resources"].get(s) or {} for s in ("requests", "limits"))
        both = {"requests": {**other, **one}, "limits": {**one, **other}}
        found += _amounts("stages.resources", both)
    found += [*_sizes(release, values), *_names(release, values)]
    return list(dict.fromkeys(found))


def _pods(release: Release) -> dict[str, Values]:
    """Return the gang's pod, one of a stage and the test's, by the key of their resources."""
    jobs = {job.name: job.pod for job in release.jobset.jobs}
    tests = (each["spec"] for each in release.objects if each.get("kind") == "Pod")
    pods = {"resources": jobs.get(GANG), "stages.resources": jobs.get("clone")}
    pods["test.resources"] = next(tests, None)
    return {path: pod for path, pod in pods.items() if pod}


def _init_containers(pod: Values, values: Values) -> Iterator[tuple[str, Values]]:
    """Yield the path and each init container; those of the profile have the network's path."""
    keys = {
        "network.initContainers": values["network"]["initContainers"],
        "extraInitContainers": values["extraInitContainers"],
    }
    given = {c["name"]: f"{key}[{n}]" for key, own in keys.items() for n, c in enumerate(own or ())}
    for container in pod.get("initContainers") or ():
        if container["name"] != "restart-agent":
            yield given.get(container["name"], "network.profile"), container


def _launcher(path: str, container: Values, values: Values) -> Iterator[Refusal]:
    resources, gpu = container.get("resources") or {}, values["gpuResource"]
    requests, limits = (resources.get(side) or {} for side in ("requests", "limits"))
    sides = {"requests": requests, "limits": limits}
    own = {side: {k: v for k, v in each.items() if k != gpu} for side, each in sides.items()}
    yield from _amounts(path, own)
    memory, shared = limits.get("memory") or requests.get("memory"), values["sharedMemory"]
    if memory and path != "test.resources" and not _is_less(shared["sizeLimit"], memory):
        says = (
            f"memory {memory} is not more than sharedMemory.sizeLimit {shared['sizeLimit']}, which "
            "counts as memory; set more memory or a smaller sizeLimit"
        )
        yield Refusal(id="memory-shared", path=path, says=says)
    huge = [name.removeprefix("hugepages-") for name in limits if name.startswith("hugepages-")]
    yield from _huge_pages(path, values["extraVolumes"], huge)
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


def _huge_pages(path: str, extra: Sequence[Values], given: Sequence[str]) -> Iterator[Refusal]:
    """Yield volumes of huge pages that the pod does not have: the kubelet could not mount them."""
    for number, volume in enumerate(extra):
        medium = (volume.get("emptyDir") or {}).get("medium") or ""
        size = medium.removeprefix("HugePages").removeprefix("-")
        if medium.startswith("HugePages") and not (size in given if size else len(given) == 1):
            says = (
                f"{medium} requires huge pages of {size or 'one size'}, and {path} has "
                f"{' and '.join(given) or 'none'}; set {path}.limits.hugepages-{size or '2Mi'}, or "
                "another medium"
            )
            where = f"extraVolumes[{number}].emptyDir.medium"
            yield Refusal(id="volume-huge-pages", path=where, says=says)


def _container(path: str, container: Values) -> Iterator[Refusal]:
    yield from _amounts(f"{path}.resources", container.get("resources") or {}, is_own=True)
    if container.get("envFrom"):
        return
    variables = container.get("env") or []
    names = [each["name"] for each in variables]
    for name, other, position in _references(variables):
        if other not in names[:position]:
            says = f"$({other}) is not a variable above it; set {other} before {name}, or write "
            says += f"$$({other}) for this text"
            yield Refusal(id="init-container-reference", path=f"{path}.env.{name}", says=says)
    for field, number, word in _words_of(container):
        for other in _named(word):
            # a shell would run a command of that name, which has small letters
            if re.fullmatch("[A-Z_][A-Z0-9_]*", other) and other not in names:
                says = f"$({other}) is not a variable of the container; set it in env, or write "
                says += f"$$({other}) for this text"
                where = f"{path}.{field}[{number}]"
                yield Refusal(id="init-container-reference", path=where, says=says)
    yield from _sub_paths(f"{path}.volumeMounts", container.get("volumeMounts") or (), names)


def _words_of(container: Values) -> Iterator[tuple[str, int, Any]]:
    for field in ("command", "args"):
        for number, word in enumerate(container.get(field) or ()):
            yield field, number, word


def _sub_paths(path: str, mounts: Sequence[Values], names: Sequence[str]) -> Iterator[Refusal]:
    for number, mount in enumerate(mounts):
        for name in _named(mount.get("subPathExpr")):
            if name not in names:
                says = f"$({name}) is not a variable of the container, which could not start; set "
                says += "it, e.g. from metadata.name"
                where = f"{path}[{number}].subPathExpr"
                yield Refusal(id="sub-path-variable", path=where, says=says)


def _named(word: object) -> list[str]:
    """Return the names in $(NAME) of a text, without those of the cluster; $$(NAME) is text."""
    found = _REFERENCE.findall(word.replace("$$", "")) if isinstance(word, str) else []
    return [name for name in found if not name.startswith("KUBERNETES_")]


def _references(variables: Sequence[Values]) -> Iterator[tuple[str, str, int]]:
    """Yield name, reference and position of each variable that refers to another."""
    for position, variable in enumerate(variables):
        for other in _named(variable.get("value")):
            yield variable["name"], other, position


def _amounts(path: str, resources: Values, *, is_own: bool = False) -> Iterator[Refusal]:
    """Yield amounts that the API server refuses.

    ``is_own``: no amount is derived, the names are the user's or the profile's.
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
                says = f"{name} has request {request or '(none)'} and limit {limit or '(none)'}; "
                says += "set one whole number, under limits"
                yield Refusal(id="resource-whole", path=path, says=says)
        elif request and limit and _is_less(limit, request):
            says = f"{request} is more than the limit {limit}; set a smaller request or a larger "
            yield Refusal(id="resource-limit", path=f"{path}.requests.{name}", says=f"{says}limit")
        if is_own and is_huge and not {"cpu", "memory"} & {*names}:
            says = f"{name} requires cpu or memory, and none is set; set limits.memory too"
            yield Refusal(id="resource-huge-alone", path=path, says=says)


def _is_whole(name: str, limit: str) -> bool:
    if "/" in name:
        return limit.isdigit()
    page = parse_quantity(name.removeprefix("hugepages-"))
    return bool(limit) and not (_is_less("0", limit) and parse_quantity(limit) % page)


def _is_less(one: object, other: object) -> bool:
    """Return whether an amount is less than another; false without the Kubernetes client."""
    if one == other or util.find_spec("kubernetes") is None:
        return False
    return parse_quantity(one) < parse_quantity(other)


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
            says = f"{address} has {len(address)} characters, and a label's value may have 63; use "
            says += "a shorter release name"
            yield Refusal(id="release-name-coordinator", path="jobset.spec.coordinator", says=says)


def _id(item: Values) -> str:
    meta = item["metadata"]
    space = f" in {meta['namespace']}" if meta.get("namespace") else ""
    return f"{item['kind']}/{meta['name']}{space}"


def _sizes(release: Release, values: Values) -> Iterator[Refusal]:
    """Yield what Kubernetes or Linux would not store."""
    annotated = {
        "jobset.annotations": values["jobset"]["annotations"],
        "serviceAccount.annotations": values["serviceAccount"]["annotations"],
        "podAnnotations": release.gang.annotations,
    }
    maps = {}
    for number, each in enumerate(values["extraObjects"]):
        path = f"extraObjects[{number}]"
        annotated[f"{path}.metadata.annotations"] = each["metadata"].get("annotations")
        yield from _object(path, each, "keep it below 1500000 bytes")
        maps[path] = (each, "divide it, or put the files on the workspace")
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
            maps["recipe"] = (each, "put long values into files of the clone or the workspace")
    for path, (each, use) in maps.items():
        size = sum(len(str(part).encode()) for part in (each.get("data") or {}).values())
        size += sum(len(str(part)) * 3 // 4 for part in (each.get("binaryData") or {}).values())
        if each["kind"] == "ConfigMap" and size > _FILES:
            says = f"makes {size} bytes, and Kubernetes stores 1 MiB in a ConfigMap; {use}"
            yield Refusal(id="size-config-map", path=path, says=says)
    use = "put long texts into a ConfigMap or files of the workspace"
    yield from _object("values", release.jobset.manifest, use)
    yield from _words(release, values)


def _object(path: str, item: Values, use: str) -> Iterator[Refusal]:
    size = len(json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode())
    if size > _OBJECT:
        says = f"{size} bytes, and Kubernetes stores 1.5 MiB of an object; {use}"
        yield Refusal(id="size-object", path=path, says=says)


def _words(release: Release, values: Values) -> Iterator[Refusal]:
    """Yield variables and arguments that Linux does not pass."""
    words = {f"recipe.args.{k}": _longest(v) + len(k) for k, v in values["recipe"]["args"].items()}
    own, gang = values["network"]["env"], release.gang
    for path, container in [("", gang.container), *_init_containers(gang.pod, values)]:
        for each in container.get("env") or ():
            level = "network.env" if each["name"] in own else "extraEnv"
            where = f"{f'{path}.env' if path else level}.{each['name']}"
            words[where] = len(each["name"]) + _longest(each.get("value"))
        for field, number, word in _words_of(container) if path else ():
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

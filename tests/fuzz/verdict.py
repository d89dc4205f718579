"""Results that no values file may have."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.chart import judged
from tests.chart.helm import BY_SCHEMA, Document, walk
from tests.chart.renderer import Answer

OURS = "the values cannot work:"
"""First words of the chart's refusal."""
FORMS = re.compile(
    r"\[\^?[A-Za-z0-9]-[A-Za-z0-9]|[(][?]|\\\\[dwsx]|[\])]([+*?]|[{]\d)|[$][|]|[|]\^"
)
"""Parts of regular expressions, of which a message has words instead."""
TORN = ("%!", "<no value>", "<nil>", "map[")
"""Marks that Go prints for a value that a template did not expect."""
SIGNS_OF_A_PANIC = (
    "error calling",
    "nil pointer",
    "wrong type",
    "YAML parse error",
    "can't evaluate",
    "invalid value",
    "error converting YAML",
    "panic",
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+([.][0-9]+)?([munkKMGTPE]i?|e[+-]?[0-9]+)?")
_RESOURCE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|[^/]+/[^/]+")


def mistakes(answer: Answer, values: Mapping[str, Any], chart: Path) -> list[str]:
    """Return what is wrong with a chart's answer; a refusal in our words or by the schema is right.

    What the API would refuse of manifests, the values' judge must say.
    """
    found, given = list(answer.broken), json.dumps(values)
    if answer.refusal:
        is_ours = OURS in answer.refusal
        if not is_ours and BY_SCHEMA not in answer.refusal:
            found.append(f"refused in words that are not ours: {answer.refusal}")
        signs = [sign for sign in SIGNS_OF_A_PANIC if sign in answer.refusal and sign not in given]
        found += [f"a panic: {answer.refusal}"] * len(signs)
        said = answer.refusal if is_ours else "\n".join(judged.lines(values, chart=chart))
        found += [] if said else [f"the judge accepts what Helm refuses: {answer.refusal}"]
        found += [f"a regular expression: {line}" for line in with_forms(said, values)]
        return found
    found += [
        f"{torn!r} is in the manifests"
        for torn in TORN
        if torn in answer.text.replace("\\", "") and torn not in given
    ]
    for document in answer.objects:
        nulls = [path for path, node in walk(document) if node is None]
        found += [f"{document['kind']}: null at {path}" for path in nulls]
    refused = list(refused_by_the_api(answer.objects))
    return found + (refused if refused and not judged.lines(values, chart=chart) else [])


def with_forms(refusal: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a refusal with a part of a regular expression that no value has."""
    given = json.dumps(values)
    found = ((line, FORMS.search(line)) for line in refusal.splitlines())
    return [line for line, match in found if match and match[0] not in given]


def refused_by_the_api(objects: list[Document]) -> Iterator[str]:
    """Yield what the API server checks beyond its schemas (``pkg/apis/core/validation``)."""
    for document in objects:
        if not _NAME.fullmatch(document["metadata"]["name"]):
            yield f"{document['kind']}: no name: {document['metadata']['name']!r}"
        for path, spec in walk(document):
            if isinstance(spec, dict) and "containers" in spec:
                yield from (f"{document['kind']} {path}: {wrong}" for wrong in _pod(spec))


def _pod(spec: Document) -> Iterator[str]:
    volumes = [volume["name"] for volume in spec.get("volumes", [])]
    yield from _twice("volume", volumes)
    for container in spec["containers"]:
        mounts = container.get("volumeMounts", [])
        yield from _twice("variable", [entry["name"] for entry in container.get("env", [])])
        yield from _twice("mountPath", [mount["mountPath"] for mount in mounts])
        yield from (f"no volume {m['name']}" for m in mounts if m["name"] not in volumes)
        yield from _resources(container.get("resources", {}))


def _resources(resources: Document) -> Iterator[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, amount in [*requests.items(), *limits.items()]:
        if not _QUANTITY.fullmatch(str(amount)):
            yield f"{name}: {amount!r} is not a quantity"
        if not _RESOURCE.fullmatch(name):
            yield f"{name} is not a resource of a container"
    for name in requests:
        if "/" in name and requests[name] != limits.get(name):
            yield f"{name}: request {requests[name]} is not the limit {limits.get(name)}"


def _twice(what: str, names: list[str]) -> Iterator[str]:
    yield from (f"{what} {name} twice" for name in {n for n in names if names.count(n) > 1})

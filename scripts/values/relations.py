"""Relations between values that neither ``values.schema.json`` nor the chart's templates judge.

All are judged on merged values with their defaults. To add one: a function that yields a
``Refusal``, called by ``refusals``; what only rendered objects show is in ``rendered``.
"""

from __future__ import annotations

import ipaddress
import json
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launchers.config.flag_value import Value
from launchers.config.recipe import parse
from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from launchers.refusal import Refusal
from launchers.rules import table
from launchers.rules.engine import Local, Multiple, Range
from scripts.quantity import is_resource
from scripts.values import containers, fabric, variables
from scripts.values.containers import twice
from scripts.values.paths import quoted, walk

Values = Mapping[str, Any]
_BLANK = re.compile("[\x85\xa0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000]")
"""Blanks and invisible characters beyond ASCII."""
_PROSE = ("extraEnv", "podAnnotations", "global", "recipe.args")
"""Keys whose values may hold prose."""
_NAMED = (
    *("podLabels", "podAnnotations", "nodeSelector", "jobset", "monitoring", "affinity"),
    *("topologySpreadConstraints", "networkPolicy", "serviceAccount", "extraObjects"),
    *("extraVolumes", "extraInitContainers", "stages", "test", "workspace", "extraEnv"),
    "network.env",
)
"""Keys below which names are the user's."""
_SELECTING = ("affinity", "stages.affinity", "test.affinity", "topologySpreadConstraints")
"""Keys of terms that select pods by their labels."""
_OWN = ("task", "reference", "export", "pairWeights", "adapterReference")
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_GANG = ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")
"""Labels of the selector that a constraint without one gets."""
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def refusals(values: Values) -> list[Refusal]:
    """Return what cannot work together.

    Args:
        values: as Helm merges them, with the chart's defaults; each of a type that the schema
            accepts.
    """
    network = fabric.fabric(values)
    found = [
        *blanks(values),
        *_booleans(values),
        *_gang(values),
        *_resources(values),
        *recipe(values),
        *fabric.refusals(values, network),
        *variables.refusals(values, network),
        *_labels(values, network),
        *containers.refusals(values, network),
        *_objects(values),
        *_network_policy(values["networkPolicy"]),
    ]
    return list(dict.fromkeys(found))


def blanks(values: Values) -> Iterator[Refusal]:
    """Yield texts with blanks and invisible characters beyond ASCII; values may be of any type."""
    for path, key, value in walk(values):
        text = value if isinstance(value, str) else key
        blank = None if path.startswith(_PROSE) else _BLANK.search(text)
        if blank:
            shown = f"holds a blank or an invisible character beyond ASCII, {quoted(blank[0])}"
            yield Refusal(id="character-blank", path=path, says=f"{shown}; replace it")


def _booleans(values: Values) -> Iterator[Refusal]:
    """Yield names that YAML made booleans."""
    for path, key, _ in walk(values):
        above = path.rpartition(".")[0]
        if key in ("true", "false") and path.startswith(_NAMED):
            words = "on, y and yes" if key == "true" else "off, n and no"
            is_variable = above in ("extraEnv", "network.env")
            made = f"YAML makes {'' if is_variable else 'the name '}{key} of an unquoted {words}; "
            use = f"{'quote the name, or ' if is_variable else ''}use another one"
            where = path if is_variable else above
            yield Refusal(id="name-boolean", path=where, says=f"{made}{use}")


def _gang(values: Values) -> Iterator[Refusal]:
    ports = values["rendezvous"]
    master, gang = int(ports["masterPort"]), int(ports["gangPort"])
    if master == gang:
        says = f"{gang} is rendezvous.masterPort too; use another port"
        yield Refusal(id="rendezvous-ports", path="rendezvous.gangPort", says=says)
    if values["monitoring"]["port"] in (master, gang):
        says = f"{values['monitoring']['port']} is a port of rendezvous too; use another port"
        yield Refusal(id="monitoring-port", path="monitoring.port", says=says)
    image, own = values["image"], values["recipe"]
    named = re.search(r"swift([0-9]+[.][0-9]+[.][0-9]+)", image["tag"] or "")
    is_judged = own["checkFlags"] and not image["digest"]
    if is_judged and named and named[1] != own["swiftVersion"]:
        says = (
            f"names ms-swift {named[1]}, and recipe.swiftVersion is {own['swiftVersion']}; set "
            f'recipe.swiftVersion: "{named[1]}", or recipe.checkFlags: false if the chart does '
            "not know that release"
        )
        yield Refusal(id="image-swift", path="image.tag", says=says)
    spec: Values = next(iter(values["podSpec"].get("containers") or ()), {})
    grace = int(values["terminationGracePeriodSeconds"])
    for hook in ("postStart", "preStop"):
        handler = (spec.get("lifecycle") or {}).get(hook) or {}
        seconds = (handler.get("sleep") or {}).get("seconds") or 0
        if seconds > grace:
            says = f"{seconds}, and terminationGracePeriodSeconds is {grace}; use a smaller number"
            path = f"podSpec.containers[0].lifecycle.{hook}.sleep.seconds"
            yield Refusal(id="pod-spec-sleep", path=path, says=says)
    if leader := (values["jobset"]["spec"] or {}).get("coordinator"):
        rank, nodes = leader.get("podIndex") or 0, values["nodes"]
        if rank >= nodes:
            says = f"{rank}, and nodes is {nodes}; use a rank of the gang, such as 0"
            path = "jobset.spec.coordinator.podIndex"
            yield Refusal(id="coordinator-rank", path=path, says=says)


def _resources(values: Values) -> Iterator[Refusal]:
    gpu = values["gpuResource"]
    if not is_resource(gpu):
        says = f"{gpu} is not a resource; use the name of a device plugin, such as nvidia.com/gpu"
        yield Refusal(id="resource-name", path="gpuResource", says=says)
    for path in ("resources", "stages.resources", "test.resources"):
        given = values[path.partition(".")[0]]
        given = (given["resources"] if "." in path else given) or {}
        for name in sorted({*(given.get("requests") or ()), *(given.get("limits") or ())}):
            if name == gpu:
                use = "gpusPerNode; use gpusPerNode"
                use = use if path == "resources" else "the stage, and a stage pod has no GPU"
                use += "" if path == "resources" else "; remove it"
                yield Refusal(id="resource-gpu", path=path, says=f"{name} is set by {use}")
            elif not is_resource(name):
                says = f'"{name}" is not a resource; use cpu, memory or a name such as rdma/hca'
                yield Refusal(id="resource-name", path=path, says=says)


def recipe(values: Values) -> Iterator[Refusal]:
    """Yield what ``launchers/rules`` refuses, and datasets that are named twice."""
    own = values["recipe"]
    args = {name: _flag(value) for name, value in own["args"].items() if value is not None}
    yield from table.empty(args)
    keys = {key: own[key] for key in _OWN} | {"backend": own["backend"], "args": args}
    try:
        read = parse({**keys, "model": "m", "dataset": ["d"]})
    except LaunchError:  # a name that is no flag's, which the chart refuses
        return
    swift = own["swiftVersion"] if own["checkFlags"] else ""
    gang = {"nodes": values["nodes"], "gpus_per_node": max(1, values["gpusPerNode"])}
    model = values["gpuModel"] or ""
    context = table.Context.of(read, model_config=None, gpu_model=model, swift=swift, **gang)
    rows = table.rows(read.backend, context.swift)
    always = {row.id for row in rows if isinstance(row, Multiple | Range)}
    for refusal in table.check(read.args, context):
        if own["checkFlags"] or refusal.id in always or refusal.id.startswith("overrides-"):
            yield refusal
    names = [re.sub(r"#[1-9][0-9]*$", "", each) for each in own["dataset"] or ()]
    plain = [name.rstrip("/") if _is_source(name) else "" for name in names]
    for position, name in twice(plain):
        says = (
            f'"{names[position]}" is recipe.dataset[{plain.index(name)}] too, and rows that are '
            "held out of one would be trained on in the other; list it once, with #N for N "
            "samples, which may be more than it has"
        )
        yield Refusal(id="dataset-twice", path=f"recipe.dataset[{position}]", says=says)
    if own["checkFlags"]:
        yield from _evaluated(args, names, [row for row in rows if isinstance(row, Local)])


def _is_source(name: str) -> bool:
    try:
        return bool(parse_source(name, "recipe.dataset"))
    except LaunchError:
        return False


def _flag(value: object) -> Value:
    if isinstance(value, Mapping):
        return dict(value)
    return [*map(variables.text, value)] if isinstance(value, list) else variables.text(value)


def _evaluated(
    args: Mapping[str, Value], datasets: Sequence[str], rows: Sequence[Local]
) -> Iterator[Refusal]:
    """Yield datasets that are evaluated on too, by their text; the launcher compares the files."""
    trained = [os.path.normpath(each.removeprefix("file://")) for each in datasets]
    for row in (row for row in rows if row.evaluates and row.flag in args):
        given = args[row.flag]
        for each in given if isinstance(given, list) else [str(given)]:
            file = os.path.normpath(re.sub(r"#[0-9]+$", "", each))
            if file.startswith("/") and file in trained:
                says = (
                    f"{file} is recipe.dataset[{trained.index(file)}] too, and rows that were "
                    f"trained on say nothing; use other rows{row.instead}"
                )
                path = f"recipe.args.{row.flag}"
                yield Refusal(id="evaluation-trained", path=path, says=says)


def _labels(values: Values, network: Values) -> Iterator[Refusal]:
    extra = [each["name"] for each in network["initContainers"]]
    given = {"network.annotations": values["network"]["annotations"]}
    for path, notes in {**given, "podAnnotations": values["podAnnotations"]}.items():
        names = ["launcher", *(extra if path == "network.annotations" else [])]
        for name, value in (notes or {}).items():
            if says := _annotation(name, variables.text(value), names, path):
                yield Refusal(id="annotation-value", path=path, says=f"{name} {says}")
    for path, _, term in walk(values):
        if path.startswith(_SELECTING):
            yield from _label_keys(path, term)


def _annotation(name: str, value: str, containers: Sequence[str], path: str) -> str:
    """Return why the API server refuses an annotation; empty if it does not."""
    is_number = re.fullmatch("0|-?[1-9][0-9]{0,9}", value)
    if name == _DELETION_COST and not (is_number and -(2**31) <= int(value) < 2**31):
        return f"is {json.dumps(value)}; use a whole number of 32 bits, such as 100"
    container = name.removeprefix(_APPARMOR)
    if container == name:
        return ""
    if container not in containers:
        lacks = "not all pods have" if path == "podAnnotations" else "the gang's pods do not have"
        use = f"{' or '.join(containers)}, or extraInitContainers with "
        return (
            f"names the container {container}, which {lacks}; use {use}"
            "securityContext.appArmorProfile"
        )
    if not re.fullmatch("runtime/default|unconfined|localhost/.+", value):
        return f"is {json.dumps(value)}; use runtime/default, unconfined or localhost/NAME"
    return ""


def _label_keys(path: str, term: object) -> Iterator[Refusal]:
    """Yield keys of ``matchLabelKeys`` and ``mismatchLabelKeys`` that are there twice."""
    if not isinstance(term, Mapping):
        return
    match, mismatch = (term.get(f"{word}LabelKeys") or () for word in ("match", "mismatch"))
    given = term.get("labelSelector")
    where = "labelSelector" if given else "the chart's own selector"
    default = {"matchLabels": _GANG} if path.startswith("topology") else {}
    selector: Values = given or default
    selected = {*(selector.get("matchLabels") or ())}
    selected |= {each["key"] for each in selector.get("matchExpressions") or ()}
    ends = "too, and Kubernetes accepts a key once; remove one of them"
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        for key in sorted(selected & {*keys}):
            says = f"{key} is in {where} {ends}"
            yield Refusal(id="label-keys", path=f"{path}.{field}", says=says)
    for key in sorted({*match} & {*mismatch}):
        says = f"{key} is in matchLabelKeys {ends}"
        yield Refusal(id="label-keys", path=f"{path}.mismatchLabelKeys", says=says)


def _objects(values: Values) -> Iterator[Refusal]:
    for number, each in enumerate(values["extraObjects"]):
        if each["kind"] == "ConfigMap":
            for key in sorted({*(each.get("data") or ())} & {*(each.get("binaryData") or ())}):
                says = f"{key} is in data and in binaryData; remove one of them"
                yield Refusal(id="extra-object-key", path=f"extraObjects[{number}]", says=says)
    constraints = values["topologySpreadConstraints"]
    pairs = [f"{each.get('topologyKey')} {each.get('whenUnsatisfiable')}" for each in constraints]
    for number, _ in twice(pairs):
        says = "topologyKey and whenUnsatisfiable are those of an earlier one; remove one of them"
        yield Refusal(id="spread-twice", path=f"topologySpreadConstraints[{number}]", says=says)
    length = len(" ".join((values["dnsConfig"] or {}).get("searches") or ()))
    if length > 2048:
        says = f"{length} characters, and Kubernetes accepts 2048; remove some"
        yield Refusal(id="dns-searches", path="dnsConfig.searches", says=says)
    for number, ip in twice(each.get("ip") for each in values["hostAliases"]):
        says = f"{ip} has an entry above; add the names to its hostnames"
        yield Refusal(id="host-alias-twice", path=f"hostAliases[{number}].ip", says=says)
    for number, name in twice(each["name"] for each in values["resourceClaims"]):
        says = f"{name} is in use; use another name"
        yield Refusal(id="claim-name", path=f"resourceClaims[{number}].name", says=says)
    sysctls = values["podSecurityContext"].get("sysctls") or ()
    for _, name in twice(each["name"].replace("/", ".") for each in sysctls):
        says = f"{name} is set twice; remove one of them"
        yield Refusal(id="sysctl-twice", path="podSecurityContext.sysctls", says=says)


def _network_policy(policy: Values) -> Iterator[Refusal]:
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(policy[side] or ()):
            path = f"networkPolicy.{side}[{number}]"
            for place, port in enumerate(rule.get("ports") or ()):
                least, most = port.get("port"), port.get("endPort")
                if most and isinstance(least, int | float) and most < least:
                    says = f"{most} is less than port {least}; use a larger one or remove it"
                    where = f"{path}.ports[{place}].endPort"
                    yield Refusal(id="network-policy-range", path=where, says=says)
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                for each in block.get("except") or ():
                    if not _is_within(each, block["cidr"]):
                        says = f"except {each} is not a part of {block['cidr']}; use a smaller "
                        says += "network inside it"
                        yield Refusal(id="network-policy-except", path=path, says=says)


def _is_within(inner: str, outer: str) -> bool:
    """Return whether a network is a part of another, and smaller; forms are the schema's."""
    try:
        small, large = (ipaddress.ip_network(each, strict=False) for each in (inner, outer))
    except ValueError:
        return True
    is_smaller = small.version == large.version and small.prefixlen > large.prefixlen
    return is_smaller and large.supernet_of(small)  # type: ignore[arg-type]

"""Relations between values that neither ``values.schema.json`` nor the chart's templates judge.

All are judged on merged values with their defaults. To add one: a function that yields a
``Refusal``, called by ``refusals``; what only rendered objects show is in ``rendered``.
"""

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
_PROSE = ("extraEnv", "podAnnotations", "global", "recipe.args")
"""Keys whose values may hold prose."""
_NAMED = (
    "podLabels", "podAnnotations", "nodeSelector", "jobset", "monitoring", "affinity",
    "topologySpreadConstraints", "networkPolicy", "serviceAccount", "extraObjects", "extraVolumes",
    "extraInitContainers", "stages", "test", "workspace", "extraEnv", "network.env",
)  # fmt: skip
"""Keys below which names are the user's."""
_SELECTING = ("affinity", "stages.affinity", "test.affinity", "topologySpreadConstraints")
"""Keys of terms that select pods by their labels."""
_OWN = ("task", "reference", "export", "pairWeights", "adapterReference")
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_GANG = ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")
"""Labels of the selector that a constraint without one gets."""
_GLOBAL = {
    "imageRegistry": "begin image.repository with the registry",
    "imagePullSecrets": "name them in image.pullSecrets",
}
_PARTS = re.compile(".*(mem(ory)?|cores?|percent(age)?)")
"""Resources of plugins that share GPUs: GiB or hundredths of one (ACK's, TKE's, HAMi's)."""
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def refusals(values: Values) -> list[Refusal]:
    """Return what cannot work together.

    ``values``: as Helm merges them, with the chart's defaults; each of a type that the schema
    accepts.
    """
    network = fabric.fabric(values)
    found = (
        *blanks(values),
        *_booleans(values),
        *_registry(values),
        *_gang(values),
        *_resources(values),
        *_recipe(values),
        *fabric.refusals(values, network),
        *variables.refusals(values, network),
        *_labels(values, network),
        *containers.refusals(values, network),
        *_objects(values),
        *_network_policy(values["networkPolicy"]),
    )
    return list(dict.fromkeys(found))


def blanks(values: Values) -> Iterator[Refusal]:
    """Yield texts with blanks and invisible characters beyond ASCII; values may be of any type."""
    for path, key, value in walk(values):
        blank = variables.BLANK.search(value if isinstance(value, str) else key)
        if blank and not path.startswith(_PROSE):
            shown = f"holds a blank or an invisible character beyond ASCII, {quoted(blank[0])}"
            yield Refusal(id="character-blank", path=path, says=f"{shown}; replace it")


def _booleans(values: Values) -> Iterator[Refusal]:
    """Yield names that YAML made booleans."""
    for path, key, _ in walk(values):
        if key in ("true", "false") and path.startswith(_NAMED):
            words = "on, y and yes" if key == "true" else "off, n and no"
            where, name, use = path.rpartition(".")[0], f"the name {key}", "use another one"
            if where in ("extraEnv", "network.env"):
                where, name, use = path, key, "quote the name, or use another one"
            says = f"YAML makes {name} of an unquoted {words}; {use}"
            yield Refusal(id="name-boolean", path=where, says=says)


def _registry(values: Values) -> Iterator[Refusal]:
    """Yield keys for all charts, which this chart does not read, unless its own keys say the same.

    Not in the schema: a parent chart may have them for others.
    """
    given, image = values.get("global") or {}, values["image"]
    is_mirrored = image["repository"].startswith(f"{given.get('imageRegistry')}/")
    said = {"imageRegistry": is_mirrored, "imagePullSecrets": bool(image["pullSecrets"])}
    for key, use in _GLOBAL.items():
        if given.get(key) and not said[key]:
            says = f"read by no template; {use}"
            yield Refusal(id="text-registry", path=f"global.{key}", says=says)


def _gang(values: Values) -> Iterator[Refusal]:
    master, gang = (int(values["rendezvous"][key]) for key in ("masterPort", "gangPort"))
    if master == gang:
        says = f"{gang} is rendezvous.masterPort too; use another port"
        yield Refusal(id="rendezvous-ports", path="rendezvous.gangPort", says=says)
    if (port := values["monitoring"]["port"]) in (master, gang):
        says = f"{port} is a port of rendezvous too; use another port"
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
    container: Values = next(iter(values["podSpec"].get("containers") or ()), {})
    grace = int(values["terminationGracePeriodSeconds"])
    for hook, handler in (container.get("lifecycle") or {}).items():
        seconds = ((handler or {}).get("sleep") or {}).get("seconds") or 0
        if seconds > grace:
            says = f"{seconds}, and terminationGracePeriodSeconds is {grace}; use a smaller number"
            path = f"podSpec.containers[0].lifecycle.{hook}.sleep.seconds"
            yield Refusal(id="pod-spec-sleep", path=path, says=says)
    leader = (values["jobset"]["spec"] or {}).get("coordinator") or {}
    if (rank := leader.get("podIndex") or 0) >= values["nodes"]:
        says = f"{rank}, and nodes is {values['nodes']}; use a rank of the gang, such as 0"
        path = "jobset.spec.coordinator.podIndex"
        yield Refusal(id="coordinator-rank", path=path, says=says)


def _resources(values: Values) -> Iterator[Refusal]:
    gpu = values["gpuResource"]
    if not is_resource(gpu):
        says = f"{gpu} is not a resource; use the name of a device plugin, such as nvidia.com/gpu"
        yield Refusal(id="resource-name", path="gpuResource", says=says)
    if _PARTS.fullmatch(gpu):
        says = f"{gpu} counts parts of a GPU; use a resource of whole ones, such as nvidia.com/gpu"
        yield Refusal(id="gpu-slices", path="gpuResource", says=says)
    for level in ("", "stages.", "test."):
        path, given = f"{level}resources", values[level[:-1]] if level else values
        sides = (given["resources"] or {}).get
        amounts = {**(sides("requests") or {}), **(sides("limits") or {})}
        for name in sorted(amounts):
            if name == gpu and amounts[gpu] is None and not level and values["resourceClaims"]:
                continue  # the GPUs are those of a claim
            if name == gpu:
                use = "the stage, and a stage pod has no GPU; remove it"
                use = use if level else "gpusPerNode; use gpusPerNode"
                yield Refusal(id="resource-gpu", path=path, says=f"{name} is set by {use}")
            elif not is_resource(name):
                says = f'"{name}" is not a resource; use cpu, memory or a name such as rdma/hca'
                yield Refusal(id="resource-name", path=path, says=says)


def _recipe(values: Values) -> Iterator[Refusal]:
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
    """Return whether a text is a source; the schema refuses another, and does not replace it."""
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
                says = f"{file} is recipe.dataset[{trained.index(file)}] too, and rows that were "
                says += f"trained on say nothing; use other rows{row.instead}"
                yield Refusal(id="evaluation-trained", path=f"recipe.args.{row.flag}", says=says)


def _labels(values: Values, network: Values) -> Iterator[Refusal]:
    extra = [each["name"] for each in network["initContainers"]]
    given = {"network.annotations": values["network"]["annotations"]}
    for path, notes in {**given, "podAnnotations": values["podAnnotations"]}.items():
        names = ["launcher", *(extra if path == "network.annotations" else [])]
        for name, value in (notes or {}).items():
            if says := _annotation(name, variables.text(value), names, path):
                yield Refusal(id="annotation-value", path=path, says=f"{name} {says}")
    for path, _, term in walk(values):
        if path.startswith(_SELECTING) and isinstance(term, Mapping):
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


def _label_keys(path: str, term: Values) -> Iterator[Refusal]:
    """Yield keys of ``matchLabelKeys`` and ``mismatchLabelKeys`` that are there twice."""
    match, mismatch = ({*(term.get(f"{word}LabelKeys") or ())} for word in ("match", "mismatch"))
    own: Values = {"matchLabels": _GANG} if path.startswith("topology") else {}
    selector = term.get("labelSelector") or own
    where = "labelSelector" if term.get("labelSelector") else "the chart's own selector"
    selected = {each["key"] for each in selector.get("matchExpressions") or ()}
    selected |= {*(selector.get("matchLabels") or ())}
    pairs = [("match", match & selected, where), ("mismatch", mismatch & selected, where)]
    for field, keys, other in (*pairs, ("mismatch", match & mismatch, "matchLabelKeys")):
        for key in sorted(keys):
            says = f"{key} is in {other} too, and Kubernetes accepts a key once; remove one of them"
            yield Refusal(id="label-keys", path=f"{path}.{field}LabelKeys", says=says)


def _objects(values: Values) -> Iterator[Refusal]:
    for number, each in enumerate(values["extraObjects"]):
        if each["kind"] == "ConfigMap":
            for key in sorted({*(each.get("data") or ())} & {*(each.get("binaryData") or ())}):
                says = f"{key} is in data and in binaryData; remove one of them"
                yield Refusal(id="extra-object-key", path=f"extraObjects[{number}]", says=says)
    constraints = values["topologySpreadConstraints"]
    pairs = (f"{each.get('topologyKey')} {each.get('whenUnsatisfiable')}" for each in constraints)
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
            for block in (peer.get("ipBlock") or {} for peer in rule.get(peers) or ()):
                for each in block.get("except") or ():
                    if not _is_within(each, block["cidr"]):
                        says = f"except {each} is not a part of {block['cidr']}; use a smaller "
                        says += "network inside it"
                        yield Refusal(id="network-policy-except", path=path, says=says)


def _is_within(inner: str, outer: str) -> bool:
    """Return whether a network is a part of another, and smaller; forms are the schema's."""
    small, large = (ipaddress.ip_network(each, strict=False) for each in (inner, outer))
    if small.version != large.version or small == large:
        return False
    return large.supernet_of(small)  # type: ignore[arg-type]

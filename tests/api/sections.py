"""Values with drawn pod parts, and the same parts in a pod without the chart."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.api import single_keys
from tests.api.parts import LABEL_VALUES, LABELS, LONG, NAMES, PATHS, TEXTS, WRONG, Parts, Pool
from tests.chart.helm import Document

VARIABLES: Pool = (
    ("A", "MY_VAR", "x"),
    ("1A", "A-B", "A B", "é", "", "A.B", "A=B", "A\u00a0B", "RANK"),
)
RESOURCES: Pool = (
    ("cpu", "memory", "ephemeral-storage", "example.com/nic"),
    ("gpu", "storage", "hugepages-2Mi", "Example.com/nic", "a..b/nic", "cpu ", "rdma/"),
)
IMAGES: Pool = (
    ("example.com/a:1", "busybox:1.36"),
    ("busybox", "", " busybox", "busybox\u00a0", "a b"),
)

OBJECTS = (
    ("ConfigMap", "v1"),
    ("LimitRange", "v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
    ("ServiceAccount", "v1"),
)
"""Kinds of extra objects whose other fields may all be absent, with their version."""


@dataclass(frozen=True)
class Section:
    draw: Callable[[Parts], Document]
    """Returns a layer of values."""
    place: Callable[[Document, Document], None] | None = None
    """Puts the layer's parts into a pod; None where the chart changes them on the way."""


def _volumes(parts: Parts) -> Document:
    volumes = parts.some(lambda: parts.of("Volume"))
    mounts = [{"name": v.get("name", "one"), "mountPath": f"/m{i}"} for i, v in enumerate(volumes)]
    return {"extraVolumes": volumes, "extraVolumeMounts": mounts}


def _mounts(parts: Parts) -> Document:
    volumes: list[Document] = [{"name": name, "emptyDir": {}} for name in ("one", "two")]
    mounts = parts.some(lambda: parts.of("VolumeMount"))
    return {"extraVolumes": volumes, "extraVolumeMounts": mounts}


def _env(parts: Parts) -> Document:
    def value() -> Any:
        source = {"valueFrom": parts.of("EnvVarSource")}
        return source if parts.chance.random() < 0.7 else parts.pick((("a", 1, True), TEXTS))

    return {"extraEnv": {parts.pick(VARIABLES): value() for _ in range(2)}}


def _resources(parts: Parts) -> Document:
    def amounts() -> Document:
        names = parts.some(lambda: parts.pick(RESOURCES))
        return {name: parts.quantity(name) for name in names}

    sides = {side: amounts() for side in ("requests", "limits") if parts.chance.random() < 0.7}
    key = parts.chance.choice(("resources", "test"))
    return {key: sides if key == "resources" else {"resources": sides}}


def _one(key: str, name: str) -> Callable[[Parts], Document]:
    return lambda parts: {key: parts.of(name)}


def _list(key: str, name: str, most: int = 2) -> Callable[[Parts], Document]:
    return lambda parts: {key: parts.some(lambda: parts.of(name), most)}


def _network_policy(parts: Parts) -> Document:
    ingress = parts.some(lambda: parts.of("NetworkPolicyIngressRule"))
    egress = parts.some(lambda: parts.of("NetworkPolicyEgressRule"))
    return {"networkPolicy": {"enabled": True, "ingress": ingress, "egress": egress}}


def _service_account(parts: Parts) -> Document:
    annotations = {parts.pick(LABELS): parts.pick((("a", "b c"), (LONG, "")))}
    name = parts.pick((("", "a", "a.b"), TEXTS))
    account = {"create": True, "annotations": annotations}
    return {"serviceAccount": account, "serviceAccountName": name}


def _pod_spec(parts: Parts) -> Document:
    made = parts.of("PodSpec")
    made["containers"] = [parts.of("Container") | {"name": parts.pick((("launcher",), TEXTS))}]
    if made.get("dnsPolicy") == "None" and parts.chance.random() < 0.8:
        return {"podSpec": made, "dnsConfig": {"nameservers": ["10.0.0.1"]}}
    return {"podSpec": made}


def _jobset_spec(parts: Parts) -> Document:
    pools: Mapping[str, Pool] = {
        "replicatedJob": (("node",), ("clone", "Node", "", None)),
        "jobIndex": ((0,), (1, -1, "0", 0.5)),
        "podIndex": ((0, 1), (2, -1, "1", 2**31)),
    }
    taken = [name for name in pools if parts.chance.random() < 0.8]
    return {"jobset": {"spec": {"coordinator": {name: parts.pick(pools[name]) for name in taken}}}}


def _extra_objects(parts: Parts) -> Document:
    def made() -> Document:
        kind, version = parts.chance.choice(OBJECTS)
        metadata: Document = {"name": parts.pick((("a", "data", "b-1", "a.b"), TEXTS))}
        if parts.chance.random() < 0.3:
            metadata["labels"] = {parts.pick(LABELS): parts.pick(LABEL_VALUES)}
        if parts.chance.random() < 0.3:
            metadata["annotations"] = {parts.pick(LABELS): parts.pick((("a", ""), (1, True)))}
        if parts.chance.random() < 0.2:
            metadata["namespace"] = parts.pick((("default",), ("Default", "a b", "a.b")))
        part: Document = {"apiVersion": version, "kind": kind, "metadata": metadata}
        if kind == "ConfigMap":
            values: Pool = (("a", ""), (1, True, {"a": "b"}))
            part["data"] = {parts.pick((("a", "b.yaml"), TEXTS)): parts.pick(values)}
        return part

    return {"extraObjects": parts.some(made)}


def _jobset(parts: Parts) -> Document:
    labels = {parts.pick(LABELS): parts.pick(LABEL_VALUES) for _ in range(2)}
    annotations = {parts.pick(LABELS): parts.pick((("a", 1), (LONG, ""))) for _ in range(2)}
    return {"jobset": {"labels": labels, "annotations": annotations}}


def _role(parts: Parts) -> Document:
    drawn: dict[str, Callable[[], Any]] = {
        "affinity": lambda: parts.of("Affinity"),
        "nodeSelector": lambda: {parts.pick(LABELS): parts.pick(LABEL_VALUES)},
        "tolerations": lambda: parts.some(lambda: parts.of("Toleration")),
    }
    field = parts.chance.choice(sorted(drawn))
    made = {field: drawn[field]()}
    if parts.chance.random() < 0.5:
        return {"test": made}
    return {"stages": {"placement": "jobs", "convert": {"skip": True}, **made}}


COST = "controller.kubernetes.io/pod-deletion-cost"
APPARMOR = "container.apparmor.security.beta.kubernetes.io"
SPECIAL: Mapping[str, Pool] = {
    COST: (("0", "-5", 100), ("high", "1.5", "2147483648", "+1", "01", "")),
    f"{APPARMOR}/launcher": (
        ("runtime/default", "unconfined", "localhost/a"),
        ("localhost", "localhost/", "", "runtime"),
    ),
    f"{APPARMOR}/main": ((), ("runtime/default",)),
    "kubernetes.io/config.mirror": ((), ("a",)),
}
"""Values of annotations that the API server reads."""


def _pod_annotations(parts: Parts) -> Document:
    made = _labels("podAnnotations", (("a", "b c"), (LONG, "", "a" * 262_144)))(parts)
    if parts.chance.random() < 0.5:
        right = parts.chance.random() > WRONG
        name = parts.chance.choice([name for name, pool in SPECIAL.items() if pool[0] or not right])
        pool = SPECIAL[name]
        made["podAnnotations"][name] = parts.chance.choice(pool[0] if right else pool[1])
    return made


def _labels(key: str, values: Pool) -> Callable[[Parts], Document]:
    return lambda parts: {key: {parts.pick(LABELS): parts.pick(values) for _ in range(2)}}


def _extra_init_containers(parts: Parts) -> Document:
    containers = _init_containers(parts)["network"]["initContainers"]
    for each in containers:
        if parts.chance.random() < 0.6:
            each["restartPolicy"] = parts.pick((("Always",), ("Never", "always", "")))
            each |= _sidecar(parts)
        elif parts.chance.random() < WRONG:
            each |= _sidecar(parts)
    return {"extraInitContainers": containers}


def _sidecar(parts: Parts) -> Document:
    """Draw fields of a sidecar, which other init containers may not have."""
    drawn: dict[str, Callable[[], Any]] = {
        "envFrom": lambda: parts.some(lambda: parts.of("EnvFromSource")),
        "lifecycle": lambda: {"preStop": parts.of("LifecycleHandler")},
        "livenessProbe": lambda: parts.of("Probe"),
        "ports": lambda: parts.some(lambda: parts.of("ContainerPort")),
        "readinessProbe": lambda: parts.of("Probe"),
        "startupProbe": lambda: parts.of("Probe"),
    }
    return {name: draw() for name, draw in drawn.items() if parts.chance.random() < 0.3}


def _init_containers(parts: Parts) -> Document:
    def container() -> Document:
        made: Document = {"name": parts.pick(NAMES), "image": parts.pick(IMAGES)}

        def source() -> Document:
            return {"valueFrom": parts.of("EnvVarSource")} if chosen() else {"value": "a"}

        def chosen() -> bool:
            return parts.chance.random() < 0.4

        if chosen():
            made["securityContext"] = parts.of("SecurityContext")
        if chosen():
            made["volumeMounts"] = [{**parts.of("VolumeMount"), "name": "tmp"}]
        if chosen():
            made["env"] = parts.some(lambda: {"name": parts.pick(VARIABLES), **source()})
        if chosen():
            name = parts.pick(RESOURCES)
            made["resources"] = {"limits": {name: parts.quantity(name)}}
        if chosen():
            made["workingDir"] = parts.pick((("/a",), TEXTS))
        return made

    return {"network": {"initContainers": parts.some(container)}}


def _workspace(parts: Parts) -> Document:
    kind = parts.chance.choice(("pvc", "nfs", "hostPath", "existingClaim", "subPath", "csi"))
    claim: Document = {"existingClaim": None}
    sources: dict[str, Callable[[], Document]] = {
        "pvc": lambda: {**claim, "pvc": _claim(parts)},
        "csi": lambda: {**claim, "csi": parts.of("CSIVolumeSource")},
        "nfs": lambda: {**claim, "nfs": parts.of("NFSVolumeSource")},
        "hostPath": lambda: {**claim, "hostPath": {"path": parts.pick((("/mnt",), TEXTS))}},
        "existingClaim": lambda: {"existingClaim": parts.pick(NAMES)},
        "subPath": lambda: {"subPath": parts.pick(PATHS)},
    }
    return {"workspace": sources[kind]()}


def _claim(parts: Parts) -> Document:
    spec = parts.of("PersistentVolumeClaimSpec")
    chosen = ("storageClassName", "accessModes", "volumeName")
    kept: Document = {k: spec[k] for k in chosen if k in spec}
    return {"size": parts.quantity(), **kept}


def _names(parts: Parts) -> Document:
    keys = ("serviceAccountName", "priorityClassName", "schedulerName", "runtimeClassName")
    key = parts.chance.choice(keys)
    return {key: parts.pick((("a", "a.b", "b-1"), TEXTS))}


def _in_spec(*keys: str) -> Callable[[Document, Document], None]:
    def place(pod: Document, values: Document) -> None:
        for key in keys:
            pod["spec"][key] = values[key]

    return place


def _place_pod_spec(pod: Document, values: Document) -> None:
    given = dict(values["podSpec"])
    [container] = given.pop("containers")
    pod["spec"] |= given | {"dnsConfig": values.get("dnsConfig", {})}
    pod["spec"]["containers"][0] |= container


def _place_volumes(pod: Document, values: Document) -> None:
    pod["spec"]["volumes"] += values["extraVolumes"]
    pod["spec"]["containers"][0]["volumeMounts"] += values["extraVolumeMounts"]


def _in_container(key: str) -> Callable[[Document, Document], None]:
    def place(pod: Document, values: Document) -> None:
        pod["spec"]["containers"][0][key] = values[key]

    return place


def _place_pod_security(pod: Document, values: Document) -> None:
    pod["spec"]["securityContext"] = values["podSecurityContext"]


def _place_env(pod: Document, values: Document) -> None:
    pod["spec"]["containers"][0]["env"] += [
        {"name": name, **(value if isinstance(value, dict) else {"value": str(value)})}
        for name, value in values["extraEnv"].items()
    ]


def _place_claims(pod: Document, values: Document) -> None:
    claims = values["resourceClaims"]
    pod["spec"]["resourceClaims"] = claims
    used = [{"name": each["name"]} for each in claims if "name" in each]
    pod["spec"]["containers"][0].setdefault("resources", {})["claims"] = used


def _place_init_containers(pod: Document, values: Document) -> None:
    pod["spec"]["initContainers"] = values["network"]["initContainers"]


def _in_metadata(key: str, field: str) -> Callable[[Document, Document], None]:
    def place(pod: Document, values: Document) -> None:
        pod["metadata"][field] |= values[key]

    return place


SECTIONS: Mapping[str, Section] = {
    "affinity": Section(_one("affinity", "Affinity"), _in_spec("affinity")),
    "env": Section(_env, _place_env),
    "dnsConfig": Section(_one("dnsConfig", "PodDNSConfig"), _in_spec("dnsConfig")),
    "envFrom": Section(_list("envFrom", "EnvFromSource"), _in_container("envFrom")),
    "extraInitContainers": Section(_extra_init_containers),
    "extraObjects": Section(_extra_objects),
    "hostAliases": Section(_list("hostAliases", "HostAlias"), _in_spec("hostAliases")),
    "initContainers": Section(_init_containers, _place_init_containers),
    "jobset": Section(_jobset),
    "jobset.spec": Section(_jobset_spec),
    "names": Section(_names),
    "networkPolicy": Section(_network_policy),
    "nodeSelector": Section(_labels("nodeSelector", LABEL_VALUES), _in_spec("nodeSelector")),
    "podAnnotations": Section(_pod_annotations, _in_metadata("podAnnotations", "annotations")),
    "podLabels": Section(_labels("podLabels", LABEL_VALUES), _in_metadata("podLabels", "labels")),
    "podSecurityContext": Section(
        _one("podSecurityContext", "PodSecurityContext"), _place_pod_security
    ),
    "podSpec": Section(_pod_spec, _place_pod_spec),
    "resourceClaims": Section(_list("resourceClaims", "PodResourceClaim"), _place_claims),
    "resources": Section(_resources),
    "role": Section(_role),
    "securityContext": Section(
        _one("securityContext", "SecurityContext"), _in_container("securityContext")
    ),
    "serviceAccount": Section(_service_account),
    "single keys": Section(single_keys.draw),
    "tmp": Section(lambda parts: {"tmp": {"sizeLimit": parts.quantity()}}),
    "tolerations": Section(_list("tolerations", "Toleration", most=3), _in_spec("tolerations")),
    "topologySpreadConstraints": Section(
        _list("topologySpreadConstraints", "TopologySpreadConstraint")
    ),
    "volumeMounts": Section(_mounts, _place_volumes),
    "volumes": Section(_volumes, _place_volumes),
    "workspace": Section(_workspace),
}


def placed(section: Section, pod: Document, values: Document) -> Document | None:
    """Return a copy of a pod with the parts of ``values``; None if they cannot be placed as is."""
    if section.place is None:
        return None
    changed = copy.deepcopy(pod)
    section.place(changed, values)
    return changed

"""Values with drawn pod parts, and the same parts in a pod without the chart."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.api.parts import LABEL_VALUES, LABELS, LONG, NAMES, PATHS, TEXTS, Parts, Pool
from tests.chart.helm import Document

VARIABLES: Pool = (
    ("A", "MY_VAR", "x"),
    ("1A", "A-B", "A B", "é", "", "A.B", "A=B", "A\u00a0B", "RANK"),
)
RESOURCES: Pool = (
    ("cpu", "memory", "ephemeral-storage", "example.com/nic"),
    ("gpu", "storage", "hugepages-2Mi", "Example.com/nic", "a..b/nic", "cpu ", "rdma/"),
)
IMAGES: Pool = (("example.com/a:1", "busybox"), ("", " busybox", "busybox\u00a0", "a b"))


@dataclass(frozen=True, kw_only=True)
class Section:
    """Draws one key of the values."""

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
    return {"extraVolumes": volumes, "extraVolumeMounts": parts.some(_mount(parts))}


def _mount(parts: Parts) -> Callable[[], Document]:
    return lambda: parts.of("VolumeMount")


def _env(parts: Parts) -> Document:
    def value() -> Any:
        source = {"valueFrom": parts.of("EnvVarSource")}
        return source if parts.chance.random() < 0.7 else parts.pick((("a", 1, True), TEXTS))

    return {"extraEnv": {parts.pick(VARIABLES): value() for _ in range(2)}}


def _resources(parts: Parts) -> Document:
    def amounts() -> Document:
        return {name: parts.quantity() for name in parts.some(lambda: parts.pick(RESOURCES))}

    sides = {side: amounts() for side in ("requests", "limits") if parts.chance.random() < 0.7}
    key = parts.chance.choice(("resources", "test"))
    return {key: sides if key == "resources" else {"resources": sides}}


def _labels(key: str, values: Pool) -> Callable[[Parts], Document]:
    return lambda parts: {key: {parts.pick(LABELS): parts.pick(values) for _ in range(2)}}


def _init_containers(parts: Parts) -> Document:
    def container() -> Document:
        made: Document = {"name": parts.pick(NAMES), "image": parts.pick(IMAGES)}

        def chosen() -> bool:
            return parts.chance.random() < 0.4

        if chosen():
            made["securityContext"] = parts.of("SecurityContext")
        if chosen():
            made["volumeMounts"] = [{**parts.of("VolumeMount"), "name": "tmp"}]
        if chosen():
            made["env"] = parts.some(lambda: {"name": parts.pick(VARIABLES), "value": "a"})
        if chosen():
            made["resources"] = {"limits": {parts.pick(RESOURCES): parts.quantity()}}
        if chosen():
            made["workingDir"] = parts.pick((("/a",), TEXTS))
        return made

    return {"network": {"initContainers": parts.some(container)}}


def _workspace(parts: Parts) -> Document:
    kind = parts.chance.choice(("pvc", "nfs", "hostPath", "existingClaim", "subPath"))
    claim: Document = {"existingClaim": None}
    sources: dict[str, Callable[[], Document]] = {
        "pvc": lambda: {**claim, "pvc": _claim(parts)},
        "nfs": lambda: {**claim, "nfs": parts.of("NFSVolumeSource")},
        "hostPath": lambda: {**claim, "hostPath": {"path": parts.pick((("/mnt",), TEXTS))}},
        "existingClaim": lambda: {"existingClaim": parts.pick(NAMES)},
        "subPath": lambda: {"subPath": parts.pick(PATHS)},
    }
    return {"workspace": sources[kind]()}


def _claim(parts: Parts) -> Document:
    spec = parts.of("PersistentVolumeClaimSpec")
    kept: Document = {k: spec[k] for k in ("storageClassName", "accessModes") if k in spec}
    return {"size": parts.quantity(), **kept}


def _names(parts: Parts) -> Document:
    key = parts.chance.choice(("serviceAccountName", "priorityClassName", "schedulerName"))
    return {key: parts.pick((("a", "a.b", "b-1"), TEXTS))}


def _in_spec(*keys: str) -> Callable[[Document, Document], None]:
    def place(pod: Document, values: Document) -> None:
        for key in keys:
            pod["spec"][key] = values[key]

    return place


def _place_volumes(pod: Document, values: Document) -> None:
    pod["spec"]["volumes"] += values["extraVolumes"]
    pod["spec"]["containers"][0]["volumeMounts"] += values["extraVolumeMounts"]


def _place_security(pod: Document, values: Document) -> None:
    pod["spec"]["containers"][0]["securityContext"] = values["securityContext"]


def _place_pod_security(pod: Document, values: Document) -> None:
    pod["spec"]["securityContext"] = values["podSecurityContext"]


def _place_env(pod: Document, values: Document) -> None:
    pod["spec"]["containers"][0]["env"] += [
        {"name": name, **(value if isinstance(value, dict) else {"value": str(value)})}
        for name, value in values["extraEnv"].items()
    ]


def _place_init_containers(pod: Document, values: Document) -> None:
    pod["spec"]["initContainers"] = values["network"]["initContainers"]


def _in_metadata(key: str, field: str) -> Callable[[Document, Document], None]:
    def place(pod: Document, values: Document) -> None:
        pod["metadata"][field] |= values[key]

    return place


SECTIONS: Mapping[str, Section] = {
    "affinity": Section(
        draw=lambda parts: {"affinity": parts.of("Affinity")}, place=_in_spec("affinity")
    ),
    "env": Section(draw=_env, place=_place_env),
    "initContainers": Section(draw=_init_containers, place=_place_init_containers),
    "names": Section(draw=_names),
    "nodeSelector": Section(
        draw=_labels("nodeSelector", LABEL_VALUES), place=_in_spec("nodeSelector")
    ),
    "podAnnotations": Section(
        draw=_labels("podAnnotations", (("a", "b c"), (LONG, "", "a" * 262_144))),
        place=_in_metadata("podAnnotations", "annotations"),
    ),
    "podLabels": Section(
        draw=_labels("podLabels", LABEL_VALUES), place=_in_metadata("podLabels", "labels")
    ),
    "podSecurityContext": Section(
        draw=lambda parts: {"podSecurityContext": parts.of("PodSecurityContext")},
        place=_place_pod_security,
    ),
    "resources": Section(draw=_resources),
    "securityContext": Section(
        draw=lambda parts: {"securityContext": parts.of("SecurityContext")},
        place=_place_security,
    ),
    "tolerations": Section(
        draw=lambda parts: {"tolerations": parts.some(lambda: parts.of("Toleration"), 3)},
        place=_in_spec("tolerations"),
    ),
    "volumeMounts": Section(draw=_mounts, place=_place_volumes),
    "volumes": Section(draw=_volumes, place=_place_volumes),
    "workspace": Section(draw=_workspace),
}


def placed(section: Section, pod: Document, values: Document) -> Document | None:
    """Return a copy of a pod with the parts of ``values``; None if they cannot be placed as is."""
    if section.place is None:
        return None
    changed = copy.deepcopy(pod)
    section.place(changed, values)
    return changed

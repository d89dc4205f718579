"""Which nodes and namespaces Kubernetes would choose: labels, affinity, taints.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scripts.doctor.answer import Object

Labels = Mapping[str, str]
HARD = ("NoSchedule", "NoExecute")


def labels(item: Object) -> Labels:
    """The labels of an object."""
    return item["metadata"].get("labels") or {}


def agrees(requirement: Object, having: Labels) -> bool:
    """Whether labels meet one requirement of a selector.

    >>> agrees({"key": "a", "operator": "In", "values": ["1"]}, {"a": "1"})
    True
    >>> agrees({"key": "a", "operator": "NotIn", "values": ["1"]}, {})
    True
    """
    value = having.get(requirement["key"])
    wanted = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and int(value) < int(wanted[0])
    return False


def selects(selector: Object | None, having: Labels) -> bool:
    """Whether a label selector takes labels; without one it takes none, an empty one all."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    return all(having.get(key) == value for key, value in exact.items()) and all(
        agrees(each, having) for each in selector.get("matchExpressions") or []
    )


def chosen(pod: Object, node: Object) -> bool:
    """Whether nodeSelector and the required node affinity of a pod admit a node."""
    having = labels(node)
    if any(having.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(agrees(each, having) for each in term.get("matchExpressions") or [])
        and all(agrees(each, fields) for each in term.get("matchFields") or [])
        for term in required["nodeSelectorTerms"]
        if term
    )


def untolerated(taints: Iterable[Object], tolerations: Iterable[Object]) -> list[str]:
    """Taints that keep a pod away, as `key=value:effect`."""
    known = list(tolerations)
    return [
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in taints
        if taint["effect"] in HARD and not any(tolerates(each, taint) for each in known)
    ]


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration is for a taint.

    >>> tolerates({"operator": "Exists"}, {"key": "gpu", "effect": "NoSchedule"})
    True
    """
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (
        (toleration.get("value") or "") == (taint.get("value") or "")
    )

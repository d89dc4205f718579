"""Whether the cluster has enough nodes that could hold the pods, busy or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from scripts.doctor import quantity
from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, ok, unknown
from scripts.doctor.kinds import NODES
from scripts.doctor.release import PodSet, Release
from scripts.doctor.seen import Seen
from scripts.doctor.selectors import chosen, untolerated

REMEDY = "lower nodes or resources, or correct nodeSelector, affinity and tolerations"


def check(release: Release, seen: Seen) -> list[Finding]:
    """One line for each kind of pods."""
    answer = seen.all(NODES)
    if not answer.found:
        return [unknown("nodes", answer)]
    return [_pod_set(each, answer.items) for each in release.pod_sets]


def _pod_set(pod_set: PodSet, nodes: list[Object]) -> Finding:
    subject = f"nodes for {pod_set.name}"
    room = {node["metadata"]["name"]: holds(pod_set, node) for node in nodes}
    places = sum(room.values())
    if places >= pod_set.count:
        holding = sum(1 for count in room.values() if count)
        return ok(subject, f"{holding} of {len(nodes)} could hold its {pod_set.count} pods")
    reasons = Counter(
        obstacle(pod_set, node) for node in nodes if not room[node["metadata"]["name"]]
    )
    why = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common(4))
    found = f"room for {places} of {pod_set.count} pods on {len(nodes)} nodes ({why})"
    return fail(subject, found, REMEDY)


def holds(pod_set: PodSet, node: Object) -> int:
    """How many pods of a set the node could hold if it were empty."""
    if obstacle(pod_set, node):
        return 0
    if pod_set.spec.get("hostNetwork"):
        return 1  # They would listen at the same ports.
    capacity = allocatable(node)
    return min(
        (int(capacity[name] // amount) for name, amount in pod_set.requests.items() if amount),
        default=pod_set.count,
    )


def obstacle(pod_set: PodSet, node: Object) -> str:
    """Why a node can't hold one pod of a set; empty if it can."""
    spec = node.get("spec") or {}
    if not chosen(pod_set.spec, node):
        return "not chosen by nodeSelector or affinity"
    taints = untolerated(spec.get("taints") or [], pod_set.spec.get("tolerations") or [])
    if taints:
        return f"taint {taints[0]} is not tolerated"
    if not ready(node):
        return "not ready"
    return _short(pod_set.requests.items(), node)


def ready(node: Object) -> bool:
    """Whether the node is ready and takes new pods."""
    conditions = (node.get("status") or {}).get("conditions") or []
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not (node.get("spec") or {}).get("unschedulable")


def allocatable(node: Object) -> dict[str, Decimal]:
    """What all pods of a node may take up together."""
    return quantity.amounts((node.get("status") or {}).get("allocatable"))


def _short(requests: Iterable[tuple[str, Decimal]], node: Object) -> str:
    capacity = allocatable(node)
    for name, amount in requests:
        having = capacity.get(name, Decimal())
        if having < amount:
            shown = quantity.show(name, having), quantity.show(name, amount)
            return f"{name} {shown[0]} of {shown[1]}"
    return ""

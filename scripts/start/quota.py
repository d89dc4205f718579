"""Quotas of ClusterQueues and Cohorts, counted as Kueue does.

Source: kubernetes-sigs/kueue:pkg/cache/scheduler/resource_node.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from scripts.doctor.api import Object
from scripts.quantity import parse_quantity

Room = tuple[str, str]
"""A flavor and a resource."""
Usage = Mapping[Room, int]
"""Thousandths of the resource's unit, by room."""


@cache
def thousandths(written: object) -> int:
    """Return a Kubernetes quantity in thousandths of its unit.

    >>> thousandths("8"), thousandths("500m")
    (8000, 500)

    Raises:
        Problem: it is not a quantity.
    """
    return int(parse_quantity(written) * 1000)


@dataclass(kw_only=True, eq=False)
class Node:
    """A ClusterQueue or Cohort with its quota and usage."""

    name: str
    parent: Node | None = None
    quota: dict[Room, int] = field(default_factory=dict)
    """Of the node and of what its children lend."""
    lend: dict[Room, int] = field(default_factory=dict)
    borrow: dict[Room, int] = field(default_factory=dict)
    usage: dict[Room, int] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """Return the cohort at the top; the node itself without one."""
        return self.parent.root if self.parent else self

    def own(self, room: Room) -> int:
        """Return the quota that is never lent."""
        limit = self.lend.get(room)
        return 0 if limit is None else max(0, self.quota.get(room, 0) - limit)

    def available(self, room: Room) -> int:
        """Return how much may still be used; negative if quota was removed."""
        quota, used = self.quota.get(room, 0), self.usage.get(room, 0)
        if self.parent is None:
            return quota - used
        own, lent = self.own(room), self.parent.available(room)
        if (limit := self.borrow.get(room)) is not None:
            lent = min(lent, quota - own - max(0, used - own) + limit)
        return max(0, own - used) + lent

    def borrows(self, usage: Usage) -> bool:
        """Return whether the node uses more than its quota with a usage on top."""
        return any(self.usage.get(r, 0) + n > self.quota.get(r, 0) for r, n in usage.items())

    def take(self, usage: Usage) -> None:
        """Add a usage; what exceeds the node's own quota is the cohort's, too."""
        above = usage
        if self.lend:
            free = {room: max(0, self.own(room) - self.usage.get(room, 0)) for room in usage}
            above = {room: max(0, amount - free[room]) for room, amount in usage.items()}
        for room, amount in usage.items():
            self.usage[room] = self.usage.get(room, 0) + amount
        if self.parent:
            self.parent.take(above)

    def give(self, usage: Usage) -> None:
        """Remove a usage."""
        above = usage
        if self.lend:
            lent = {room: self.usage[room] - self.own(room) for room in usage}
            above = {room: max(0, min(amount, lent[room])) for room, amount in usage.items()}
        for room, amount in usage.items():
            self.usage[room] -= amount
        if self.parent:
            self.parent.give(above)


@dataclass(kw_only=True, eq=False)
class Queue:
    """A ClusterQueue."""

    node: Node
    strict: bool
    """StrictFIFO: the first waiting run blocks those behind it."""
    groups: tuple[tuple[frozenset[str], tuple[str, ...]], ...]
    """Resources that are assigned together, and their flavors in the order of trial."""
    within: str
    """`preemption.withinClusterQueue`."""
    reclaim: str
    """`preemption.reclaimWithinCohort`."""
    checks: bool
    """It has admission checks, which a run waits for after its quota is reserved."""
    document: Object

    @property
    def name(self) -> str:
        """Return the name of the ClusterQueue."""
        return self.node.name

    @property
    def preempts(self) -> bool:
        """Return whether a gang may free room by preemption."""
        return not self.within == self.reclaim == "Never"


def queues_of(cluster_queues: Iterable[Object], cohorts: Iterable[Object]) -> dict[str, Queue]:
    """Return the ClusterQueues by name, each with its cohorts.

    Raises:
        Problem: a quota is not a quantity.
    """
    specs = {each["metadata"]["name"]: each.get("spec") or {} for each in cohorts}
    made: dict[str, Node] = {}

    def cohort(name: str, below: tuple[str, ...] = ()) -> Node | None:
        if not name or name in below:  # Kueue admits nothing below a cohort that is its own parent
            return None
        if name not in made:
            spec = specs.get(name) or {}
            made[name] = _node(name, spec)
            made[name].parent = cohort(str(spec.get("parentName") or ""), (*below, name))
        return made[name]

    found = {each["metadata"]["name"]: _queue(each, cohort) for each in cluster_queues}
    _lend(list(made.values()), [each.node for each in found.values()])
    return found


def _queue(item: Object, cohort: Callable[[str], Node | None]) -> Queue:
    spec: Object = item.get("spec") or {}
    preemption: Object = spec.get("preemption") or {}
    checks: Object = spec.get("admissionChecksStrategy") or {}
    node = _node(item["metadata"]["name"], spec)
    node.parent = cohort(str(spec.get("cohortName") or ""))
    return Queue(
        node=node,
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        groups=tuple(
            (frozenset(group["coveredResources"]), tuple(f["name"] for f in group["flavors"]))
            for group in spec.get("resourceGroups") or []
        ),
        within=str(preemption.get("withinClusterQueue") or "Never"),
        reclaim=str(preemption.get("reclaimWithinCohort") or "Never"),
        checks=bool(checks.get("admissionChecks") or spec.get("admissionChecks")),
        document=item,
    )


def _node(name: str, spec: Object) -> Node:
    node = Node(name=name)
    for room, entry in _entries(spec):
        node.quota[room] = thousandths(entry.get("nominalQuota") or 0)
        for limits, key in ((node.lend, "lendingLimit"), (node.borrow, "borrowingLimit")):
            if entry.get(key) is not None:
                limits[room] = thousandths(entry[key])
    return node


def _entries(spec: Object) -> Iterator[tuple[Room, Object]]:
    for group in spec.get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for entry in flavor.get("resources") or []:
                yield (flavor["name"], entry["name"]), entry


def _lend(cohorts: list[Node], queues: list[Node]) -> None:
    """Add to each cohort what its children lend, the lowest first."""

    def depth(node: Node) -> int:
        return 0 if node.parent is None else 1 + depth(node.parent)

    for node in [*queues, *sorted(cohorts, key=depth, reverse=True)]:
        if node.parent:
            for room, amount in node.quota.items():
                quota = node.parent.quota
                quota[room] = quota.get(room, 0) + amount - node.own(room)

"""Whether the asked placement can be had: a level of a Topology, and labelled nodes below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, names, ok, unknown
from scripts.doctor.kinds import FLAVORS, KUEUE, NODES, TOPOLOGIES
from scripts.doctor.nodes import holds
from scripts.doctor.queue import covering
from scripts.doctor.release import PodSet, Release
from scripts.doctor.seen import Seen
from scripts.doctor.selectors import labels

REQUIRED = f"{KUEUE}/podset-required-topology"
PREFERRED = f"{KUEUE}/podset-preferred-topology"
UNCONSTRAINED = f"{KUEUE}/podset-unconstrained-topology"
SLICE = f"{KUEUE}/podset-slice-required-topology"
SIZE = f"{KUEUE}/podset-slice-size"


def check(release: Release, seen: Seen) -> list[Finding]:
    """The gang's placement; nothing if none is asked, or the queue can't be seen."""
    notes, queue = release.gang.annotations, covering(release, seen)
    keys = {
        "kueue.topology.key": notes.get(REQUIRED) or notes.get(PREFERRED),
        "kueue.topology.slice.key": notes.get(SLICE),
    }
    asked = {place: key for place, key in keys.items() if key}
    if queue is None or not (asked or UNCONSTRAINED in notes):
        return []
    found = list(_topologies(queue, seen))
    refused = [each for each in found if isinstance(each, Finding)]
    flavors = [each for each in found if not isinstance(each, Finding)]
    if not flavors:
        remedy = "the administrator adds topologyName to the flavor; or kueue.topology.mode: none"
        return refused or [fail("topology", "no flavor of the queue has a Topology", remedy)]
    return [
        *(_level(place, key, flavors) for place, key in asked.items()),
        *_nodes(release.gang, seen, flavors),
    ]


Flavor = tuple[Object, list[str]]
"""A flavor's spec, and the levels of its Topology from the widest to the narrowest."""


def _topologies(queue: Object, seen: Seen) -> Iterator[Flavor | Finding]:
    used = {
        each["name"]
        for group in queue["spec"].get("resourceGroups") or []
        for each in group["flavors"]
    }
    for name in sorted(used):
        answer = seen.one(FLAVORS, name)
        if not answer.found:
            yield unknown(f"flavor {name}", answer)
            continue
        spec: dict[str, Any] = answer.content.get("spec") or {}
        topology = spec.get("topologyName")
        if not topology:
            continue
        known = seen.one(TOPOLOGIES, topology)
        if known.absent:
            yield fail(f"topology {topology}", "does not exist", "the administrator creates it")
        elif not known.found:
            yield unknown(f"topology {topology}", known)
        else:
            yield spec, [level["nodeLabel"] for level in known.content["spec"]["levels"]]


def _level(place: str, key: str, flavors: list[Flavor]) -> Finding:
    levels = {level for _, each in flavors for level in each}
    if key in levels:
        return ok(f"topology {key}", "is a level of the queue's Topology")
    found = f"no level of the queue's Topology, which has {names(levels)}"
    return fail(f"topology {key}", found, f"write one of these in {place}")


def _nodes(gang: PodSet, seen: Seen, flavors: list[Flavor]) -> list[Finding]:
    """The flavors' nodes: all levels labelled, and for `required` one domain that is enough."""
    answer = seen.all(NODES)
    if not answer.found:
        return [unknown("topology labels", answer)]
    notes = gang.annotations
    rooms: list[tuple[Object, int]] = []
    for spec, levels in flavors:
        wanted = (spec.get("nodeLabels") or {}).items()
        for node in answer.items:
            if wanted <= labels(node).items() and all(key in labels(node) for key in levels):
                rooms.append((node, holds(gang, node)))
    places = sum(count for _, count in rooms)
    if places < gang.count:
        found = f"nodes with the labels of all levels have room for {places} of {gang.count} pods"
        return [fail("topology labels", found, "the administrator labels the nodes")]
    return (
        [_required(gang, notes[REQUIRED], rooms)]
        if REQUIRED in notes
        else [ok("topology labels", f"{len(rooms)} nodes carry them")]
    )


def _required(gang: PodSet, key: str, rooms: list[tuple[Object, int]]) -> Finding:
    domains: Counter[str] = Counter()
    for node, count in rooms:
        domains[labels(node).get(key, "")] += count
    name, most = domains.most_common(1)[0]
    if most < gang.count:
        found = f"the roomiest {key} ({name}) has room for {most} of {gang.count} pods"
        return fail("topology domain", found, "kueue.topology.mode: preferred, or a wider key")
    return ok("topology domain", f"{key} {name} has room for all {gang.count} pods")

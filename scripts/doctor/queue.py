"""The Kueue queue of the values: LocalQueue, ClusterQueue, priority class, topology."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from scripts.doctor import api as kinds
from scripts.doctor.api import Answer, Kind, Object
from scripts.doctor.findings import Finding, fail, names, ok, unchecked
from scripts.doctor.nodes import capacity_for, labels, selects
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import KUEUE, Release, ReplicatedJob

ASK = "ask the administrator of the queue"
REQUIRED = f"{KUEUE}/podset-required-topology"
PREFERRED = f"{KUEUE}/podset-preferred-topology"
UNCONSTRAINED = f"{KUEUE}/podset-unconstrained-topology"
SLICE = f"{KUEUE}/podset-slice-required-topology"

TopologyFlavor = tuple[Object, list[str]]
"""A flavor's spec, and the node labels of its Topology from the widest to the narrowest level."""


def check_queue(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check LocalQueue, ClusterQueue, its namespaceSelector, and the priority class."""
    jobset = release.jobset
    if not jobset.queue:
        return [ok("queue-none", "queue", "none: the run starts at once, without Kueue")]
    found = [_local_queue(jobset.queue, snapshot)]
    name = cluster_queue_name(release, snapshot)
    if name:
        found += _cluster_queue(name, snapshot)
    if jobset.priority:
        found.append(_priority(jobset.priority, snapshot))
    return found


def cluster_queue_name(release: Release, snapshot: Snapshot) -> str:
    """Return the name of the ClusterQueue behind the queue; empty if it is not known."""
    queue = release.jobset.queue
    local = snapshot.named(kinds.LOCAL_QUEUES, queue) if queue else None
    return str(local.content["spec"]["clusterQueue"]) if local and local.found else ""


def cluster_queue(release: Release, snapshot: Snapshot) -> Object | None:
    """Return the ClusterQueue behind the queue; None if it can't be read."""
    name = cluster_queue_name(release, snapshot)
    answer = snapshot.named(kinds.CLUSTER_QUEUES, name) if name else None
    return answer.content if answer and answer.found else None


def _local_queue(name: str, snapshot: Snapshot) -> Finding:
    subject, answer = f"queue {name}", snapshot.named(kinds.LOCAL_QUEUES, name)
    if answer.absent:
        found = f"no LocalQueue of this name in namespace {snapshot.namespace}"
        remedy = f"set kueue.queue; there are: {_existing(snapshot, kinds.LOCAL_QUEUES)}"
        return fail("queue-missing", subject, found, remedy)
    if not answer.found:
        return unchecked("queue", subject, answer)
    return _state("queue", subject, answer)


def _cluster_queue(name: str, snapshot: Snapshot) -> list[Finding]:
    subject, answer = f"ClusterQueue {name}", snapshot.named(kinds.CLUSTER_QUEUES, name)
    if answer.absent:
        return [fail("cluster-queue-missing", subject, "does not exist", f"{ASK} to create it")]
    if not answer.found:
        return [unchecked("cluster-queue", subject, answer)]
    state = _state("cluster-queue", subject, answer)
    return [state, *_namespace_selector(subject, answer.content, snapshot)]


def _state(id: str, subject: str, answer: Answer) -> Finding:
    """Check a queue's own stop policy, then the condition that Kueue reports."""
    stop = answer.content["spec"].get("stopPolicy") or "None"
    if stop != "None":
        return fail(f"{id}-stopped", subject, f"is stopped (stopPolicy {stop})", ASK)
    for each in (answer.content.get("status") or {}).get("conditions") or []:
        if each["type"] == "Active" and each["status"] != "True":
            found = f"is not active: {each.get('message', each['reason'])}"
            return fail(f"{id}-inactive", subject, found, ASK)
    return ok(f"{id}-ok", subject, "accepts runs")


def _namespace_selector(subject: str, queue: Object, snapshot: Snapshot) -> list[Finding]:
    """Check the namespaceSelector; a ClusterQueue without one accepts no namespace."""
    selector = queue["spec"].get("namespaceSelector")
    if selector == {}:
        return []
    answer = snapshot.named(kinds.NAMESPACES, snapshot.namespace)
    if not answer.found:
        subject = f"{subject} for namespace {snapshot.namespace}"
        return [unchecked("cluster-queue-namespace", subject, answer)]
    if selects(selector, labels(answer.content)):
        return []
    found = f"its namespaceSelector {selector} does not select namespace {snapshot.namespace}"
    remedy = f"{ASK} to label the namespace, or use a queue for it"
    return [fail("cluster-queue-namespace", subject, found, remedy)]


def _priority(name: str, snapshot: Snapshot) -> Finding:
    subject, answer = f"priority class {name}", snapshot.named(kinds.PRIORITIES, name)
    if answer.absent:
        remedy = f"set kueue.priorityClass; there are: {_existing(snapshot, kinds.PRIORITIES)}"
        return fail("priority-missing", subject, "does not exist", remedy)
    if not answer.found:
        return unchecked("priority", subject, answer)
    return ok("priority-ok", subject, "exists")


def _existing(snapshot: Snapshot, kind: Kind) -> str:
    return names(item["metadata"]["name"] for item in snapshot.listed(kind).items)


def check_topology(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the topology that the gang requests; nothing without a request or a ClusterQueue."""
    notes, queue = release.gang.annotations, cluster_queue(release, snapshot)
    keys = {
        "kueue.topology.key": notes.get(REQUIRED) or notes.get(PREFERRED),
        "kueue.topology.slice.key": notes.get(SLICE),
    }
    asked = {place: key for place, key in keys.items() if key}
    if queue is None or not (asked or UNCONSTRAINED in notes):
        return []
    found = list(_topologies(queue, snapshot))
    refused = [each for each in found if isinstance(each, Finding)]
    flavors = [each for each in found if not isinstance(each, Finding)]
    if not flavors:
        text = "no flavor of the queue has a Topology"
        remedy = "the administrator adds topologyName to the flavor; or kueue.topology.mode: none"
        return refused or [fail("topology-none", "topology", text, remedy)]
    return [
        *(_level(place, key, flavors) for place, key in asked.items()),
        *_topology_nodes(release.gang, snapshot, flavors),
    ]


def _topologies(queue: Object, snapshot: Snapshot) -> Iterator[TopologyFlavor | Finding]:
    used = {
        each["name"]
        for group in queue["spec"].get("resourceGroups") or []
        for each in group["flavors"]
    }
    for name in sorted(used):
        answer = snapshot.named(kinds.FLAVORS, name)
        if not answer.found:
            yield unchecked("flavor", f"flavor {name}", answer)
            continue
        spec: dict[str, Any] = answer.content.get("spec") or {}
        topology = spec.get("topologyName")
        if not topology:
            continue
        subject, known = f"topology {topology}", snapshot.named(kinds.TOPOLOGIES, topology)
        if known.absent:
            remedy = "the administrator creates it"
            yield fail("topology-missing", subject, "does not exist", remedy)
        elif not known.found:
            yield unchecked("topology", subject, known)
        else:
            yield spec, [level["nodeLabel"] for level in known.content["spec"]["levels"]]


def _level(place: str, key: str, flavors: list[TopologyFlavor]) -> Finding:
    subject, levels = f"topology {key}", {level for _, each in flavors for level in each}
    if key in levels:
        return ok("topology-level-ok", subject, "is a level of the queue's Topology")
    found = f"not a level of the queue's Topology, which has {names(levels)}"
    return fail("topology-level-missing", subject, found, f"set {place} to one of these")


def _topology_nodes(
    gang: ReplicatedJob, snapshot: Snapshot, flavors: list[TopologyFlavor]
) -> list[Finding]:
    """Check that the flavors' nodes with all labels hold the gang; for `required`, one domain."""
    subject, answer = "topology labels", snapshot.listed(kinds.NODES)
    if not answer.found:
        return [unchecked("topology-nodes", subject, answer)]
    notes = gang.annotations
    rooms: list[tuple[Object, int]] = []
    for spec, levels in flavors:
        wanted = (spec.get("nodeLabels") or {}).items()
        for node in answer.items:
            if wanted <= labels(node).items() and all(key in labels(node) for key in levels):
                rooms.append((node, capacity_for(gang, node, snapshot)))
    places = sum(count for _, count in rooms)
    if places < gang.count:
        found = f"nodes with the labels of all levels have room for {places} of {gang.count} pods"
        remedy = "the administrator labels the nodes"
        return [fail("topology-nodes-too-few", subject, found, remedy)]
    if REQUIRED in notes:
        return [_required_domain(gang, notes[REQUIRED], rooms)]
    return [ok("topology-nodes-ok", subject, f"{len(rooms)} nodes carry them")]


def _required_domain(gang: ReplicatedJob, key: str, rooms: list[tuple[Object, int]]) -> Finding:
    domains: Counter[str] = Counter()
    for node, count in rooms:
        domains[labels(node).get(key, "")] += count
    name, most = domains.most_common(1)[0]
    subject = "topology domain"
    if most < gang.count:
        found = f"the largest {key} ({name}) has room for {most} of {gang.count} pods"
        remedy = "kueue.topology.mode: preferred, or a wider key"
        return fail("topology-domain-too-small", subject, found, remedy)
    found = f"{key} {name} has room for all {gang.count} pods"
    return ok("topology-domain-ok", subject, found)

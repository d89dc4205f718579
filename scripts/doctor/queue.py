"""Whether the queue of the values is there, works, and takes this namespace."""

from __future__ import annotations

from scripts.doctor.answer import Answer, Object
from scripts.doctor.finding import Finding, fail, names, ok, unknown
from scripts.doctor.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, PRIORITIES, Kind
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen
from scripts.doctor.selectors import labels, selects

ASK = "ask the administrator of the queue"


def check(release: Release, seen: Seen) -> list[Finding]:
    """LocalQueue, ClusterQueue, namespace and priority; nothing without a queue."""
    if not release.queue:
        return [ok("queue", "none: the run starts at once, without Kueue")]
    found = [_local(release, seen)]
    name = cluster_queue(release, seen)
    if name:
        found += _cluster(name, seen)
    if release.priority:
        found.append(_priority(release, seen))
    return found


def cluster_queue(release: Release, seen: Seen) -> str:
    """The ClusterQueue behind the queue; empty if that is not known."""
    local = seen.one(LOCAL_QUEUES, release.queue) if release.queue else None
    return str(local.content["spec"]["clusterQueue"]) if local and local.found else ""


def covering(release: Release, seen: Seen) -> Object | None:
    """The ClusterQueue itself, if it may be seen."""
    name = cluster_queue(release, seen)
    answer = seen.one(CLUSTER_QUEUES, name) if name else None
    return answer.content if answer and answer.found else None


def _local(release: Release, seen: Seen) -> Finding:
    subject = f"queue {release.queue}"
    answer = seen.one(LOCAL_QUEUES, release.queue)
    if answer.absent:
        others = _names(seen, LOCAL_QUEUES)
        found = f"no LocalQueue of this name in namespace {seen.namespace}"
        return fail(subject, found, f"write kueue.queue; there are: {others}")
    if not answer.found:
        return unknown(subject, answer)
    return _state(subject, answer, "takes runs")


def _cluster(name: str, seen: Seen) -> list[Finding]:
    subject = f"ClusterQueue {name}"
    answer = seen.one(CLUSTER_QUEUES, name)
    if answer.absent:
        return [fail(subject, "does not exist", f"{ASK} to create it")]
    if not answer.found:
        return [unknown(subject, answer)]
    return [_state(subject, answer, "takes runs"), *_namespace(subject, answer.content, seen)]


def _state(subject: str, answer: Answer, well: str) -> Finding:
    """Whether a queue works: its own stop, then what Kueue says of it."""
    stop = answer.content["spec"].get("stopPolicy") or "None"
    if stop != "None":
        return fail(subject, f"is stopped (stopPolicy {stop})", ASK)
    for each in (answer.content.get("status") or {}).get("conditions") or []:
        if each["type"] == "Active" and each["status"] != "True":
            return fail(subject, f"is not active: {each.get('message', each['reason'])}", ASK)
    return ok(subject, well)


def _namespace(subject: str, queue: Object, seen: Seen) -> list[Finding]:
    """The namespaceSelector; without one a ClusterQueue takes no namespace."""
    selector = queue["spec"].get("namespaceSelector")
    if selector == {}:
        return []
    answer = seen.one(NAMESPACES, seen.namespace)
    if not answer.found:
        return [unknown(f"{subject} for namespace {seen.namespace}", answer)]
    if selects(selector, labels(answer.content)):
        return []
    found = f"its namespaceSelector {selector} does not take namespace {seen.namespace}"
    return [fail(subject, found, f"{ASK} to label the namespace, or use a queue for it")]


def _priority(release: Release, seen: Seen) -> Finding:
    subject = f"priority class {release.priority}"
    answer = seen.one(PRIORITIES, release.priority)
    if answer.absent:
        there = _names(seen, PRIORITIES)
        return fail(subject, "does not exist", f"write kueue.priorityClass; there are: {there}")
    return ok(subject, "exists") if answer.found else unknown(subject, answer)


def _names(seen: Seen, kind: Kind) -> str:
    return names(item["metadata"]["name"] for item in seen.all(kind).items)

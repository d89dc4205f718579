"""States before admission: what Kueue's Workload, LocalQueue and ClusterQueue say.

Messages are those of Kueue 0.17 to 0.19: `pkg/scheduler/flavorassigner`, `pkg/scheduler`,
`pkg/cache/scheduler/clusterqueue.go`, `pkg/controller/core/workload_controller.go`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from launchers.suggestion import nearest
from scripts.doctor.api import Object
from scripts.manifest import KUEUE
from scripts.observe.cluster import ALL_WORKLOADS, condition, is_true
from scripts.observe.view import View, unix_time
from scripts.plan.units import time_text
from scripts.quantity import format_amount, parse_quantity
from scripts.why.holding import has_kueue, is_inactive, rejection, while_waiting
from scripts.why.position import Kept, position
from scripts.why.words import Condition, Facts, Template, after, clean, compact, lasting, matched

HOLDERS = 3
"""Holders of quota that a sentence names."""
SHORT = (
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), "
    r"(?P<more>\S+) more needed"
)
NO_FLAVOR = r"(?P<cause>flavor \S+ not found)"
NO_FLAVORS = r"references missing ResourceFlavor\(s\): (?P<cause>\S+?)[,.]*(?:\s|$)"
NOT_READABLE = "Can't submit new workloads to clusterQueue"
"""Condition of a LocalQueue whose ClusterQueue is not active, for whatever reason."""
PREEMPTING = r"Pending the preemption of (?P<count>\d+) workload"
OVERLAP = "will fit after these preemptions complete"
LOCAL_STOPPED = r"LocalQueue \S+ is (?:stopped|inactive)"
LOCAL_MISSING = r"LocalQueue \S+ (?:doesn't exist|is terminating or missing)"
MISSING = r"ClusterQueue \S+ (?:doesn't exist|not found|is terminating or missing)"
CHECKS = r"references (?:missing|inactive) AdmissionCheck\(s\): (?P<checks>[^.]+)"
UNCHECKED = Template(
    "If the queue does not need the check any more, the administrator takes it off with "
    "`kubectl patch clusterqueue {cluster_queue} --type merge -p {patch}`; otherwise its "
    "controller has to run."
)
BLOCKED = "waiting for all admitted workloads to be in PodsReady condition"
PREEMPTED = (
    r"Preempted to accommodate a workload \(UID: (?P<uid>[^,]+), .*?\) due to (?P<why>[^;]*)"
)
EVICTED_HERE = frozenset(
    {
        "Preempted",
        "PodsReadyTimeout",
        "AdmissionCheck",
        "ClusterQueueStopped",
        "LocalQueueStopped",
        "NodeFailures",
    }
)
"""Reasons of an eviction with a state of their own; deactivation has others."""


# The queue


def _local_queue_missing(view: View) -> Facts | None:
    absent = view.snapshot.answer("get localqueues").absent
    named = matched(LOCAL_MISSING, view.pending_message) is not None
    return _other(view) if view.queue and (absent or named) and has_kueue(view) else None


def _other(view: View) -> Facts:
    """Return the namespace's LocalQueue that a run could use: the nearest name, or the only one."""
    listed = view.snapshot.answer("list localqueues everywhere").items
    names = {
        str(each["metadata"]["name"])
        for each in listed
        if each["metadata"].get("namespace") == view.namespace
    } - {view.queue}
    only = next(iter(names)) if len(names) == 1 else "QUEUE"
    return {"other": nearest(view.queue, names) or only}


def _policy(queue: Object) -> str:
    found = str((queue.get("spec") or {}).get("stopPolicy") or "None")
    return "" if found == "None" else found


def _local_queue_stopped(view: View) -> Facts | None:
    policy = _policy(view.snapshot.local_queue)
    if policy or matched(LOCAL_STOPPED, view.pending_message) is not None:
        return {"policy": policy or "not readable"}
    return None


def cluster_queue(view: View) -> str:
    """Return the ClusterQueue of the run's LocalQueue, in words if that is not known."""
    spec: Object = view.snapshot.local_queue.get("spec") or {}
    return str(spec.get("clusterQueue") or "of the queue")


def _cluster_queue_missing(view: View) -> Facts | None:
    named = matched(MISSING, view.pending_message) is not None
    absent = view.snapshot.answer("get clusterqueues").absent
    return {"cluster_queue": cluster_queue(view), **_other(view)} if named or absent else None


def _activity(view: View) -> Object:
    """Return the condition of the ClusterQueue, or the LocalQueue's, which repeats it."""
    return condition(view.snapshot.cluster_queue, "Active") or condition(
        view.snapshot.local_queue, "Active"
    )


def _cluster_queue_stopped(view: View) -> Facts | None:
    policy = _policy(view.snapshot.cluster_queue)
    said = str(_activity(view).get("message") or "") + view.pending_message
    named = matched(r"ClusterQueue \S+ is stopped|: is stopped", said) is not None
    if not policy and not named:
        return None
    return {
        "cluster_queue": cluster_queue(view),
        "policy": f" (stopPolicy {policy})" if policy else "",
    }


def _cluster_queue_inactive(view: View) -> Facts | None:
    active = _activity(view)
    named = matched(r"ClusterQueue \S+ is inactive", view.pending_message) is not None
    off = active.get("status") == "False" or named
    if not off or _local_queue_stopped(view) or _cluster_queue_stopped(view):
        return None
    if _cluster_queue_missing(view) or _flavor_missing(view):
        return None
    cause = clean(str(active.get("message") or view.pending_message))
    if cause == NOT_READABLE:
        cause = "it is stopped or incomplete, which you may not read"
    return {"cluster_queue": cluster_queue(view), "cause": cause, **_without_checks(view, cause)}


def _without_checks(view: View, cause: str) -> Facts:
    """Return the change that takes the checks of a message off the ClusterQueue."""
    found = matched(CHECKS, cause)
    spec: Object = view.snapshot.cluster_queue.get("spec") or {}
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    if found is None or not checks:
        return {"remedy": Template("Ask the administrator of the queue.")}
    gone = re.split(r"[,\s]+", found["checks"])
    left = [each for each in checks if each["name"] not in gone]
    strategy = {"admissionChecks": left} if left else None
    return {"remedy": UNCHECKED, "patch": compact({"spec": {"admissionChecksStrategy": strategy}})}


def _flavor_missing(view: View) -> Facts | None:
    """Match a queue that is not active for that reason, or for one that is not known yet."""
    said = str(_activity(view).get("message") or "")
    found = matched(NO_FLAVORS, said) or matched(NO_FLAVOR, view.pending_message)
    if found is None:
        return None
    name = re.sub(r"flavor | not found", "", clean(found["cause"])).split(",")[0]
    made = {"apiVersion": f"{KUEUE}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}}
    return {"cause": clean(found["cause"]), "flavor": compact(made)}


def _preempting(view: View) -> Facts | None:
    found = matched(PREEMPTING, view.pending_message)
    if found is None:
        several = {"victims": "other workloads", "whose": "their"}
        return several if OVERLAP in view.pending_message else None
    if found["count"] == "1":
        return {"victims": "1 workload", "whose": "its"}
    return {"victims": f"{found['count']} workloads", "whose": "their"}


def _quota_short(view: View) -> Facts | None:
    found = matched(SHORT, view.pending_message)
    if found is None or _preempting(view):
        return None
    held = _holders(view, found["resource"], found["flavor"])
    place = position(view)
    return {
        "resource": found["resource"],
        "flavor": found["flavor"],
        "more": found["more"],
        "holders": held,
        "place": f" ({place})" if place else "",
    }


def _holders(view: View, resource: str, flavor: str) -> str:
    """Return which runs hold a resource of a flavor, as far as they may be read."""
    items, asked = view.snapshot.workloads, (view.namespace, cluster_queue(view), resource, flavor)
    amounts = _AMOUNTS.of(items, asked, lambda: _amounts(items, *asked))
    if not amounts:
        return ""
    named = [
        f"{name} holds {format_amount(resource, Decimal(amount) / 1000)}"
        for name, amount in amounts.most_common(HOLDERS)
    ]
    rest = len(amounts) - len(named)
    more = f" and {rest} more runs hold the rest" if rest else ""
    everywhere = view.snapshot.answer(ALL_WORKLOADS).found
    unseen = "" if everywhere else " (other namespaces may not be read)"
    return "; " + ", ".join(named) + more + unseen


_AMOUNTS: Kept[Counter[str]] = Kept()


def _amounts(
    items: Sequence[Object], space: str, queue: str, resource: str, flavor: str
) -> Counter[str]:
    """Return what each run holds of a resource of a flavor, in thousandths."""
    amounts: Counter[str] = Counter()
    for each in items:
        admission: Object = (each.get("status") or {}).get("admission") or {}
        if admission.get("clusterQueue") != queue or is_true(each, "Finished"):
            continue
        for podset in admission.get("podSetAssignments") or []:
            if (podset.get("flavors") or {}).get(resource) == flavor:
                used = (podset.get("resourceUsage") or {}).get(resource) or 0
                amounts[owner(each, space)] += int(parse_quantity(used) * 1000)
    return amounts


def owner(workload: Object, space: str) -> str:
    """Return the run of a Workload, with its namespace if that is another one."""
    meta: Object = workload["metadata"]
    owners = [each["name"] for each in meta.get("ownerReferences") or []]
    name = owners[0] if owners else meta["name"]
    return str(name) if meta.get("namespace") == space else f"{meta.get('namespace')}/{name}"


def _pods_ready_blocked(view: View) -> Facts | None:
    return {} if BLOCKED in view.pending_message else None


# After the reservation, and after an eviction


def _check_in(states: Iterable[str]) -> Condition:
    wanted = frozenset(states)

    def holds(view: View) -> Facts | None:
        for each in (view.workload.get("status") or {}).get("admissionChecks") or []:
            if each.get("state") in wanted:
                return {"check": each["name"], "cause": after(str(each.get("message") or ""))}
        return None

    return holds


def _check_rejected(view: View) -> Facts | None:
    """Match the check's state, or the deactivation's message: that resets the state to Pending."""
    found = _check_in(["Rejected"])(view)
    said = rejection(view)
    if found is None and said is not None:
        return {"check": said["check"], "cause": after(said["why"] or "")}
    return found


def _check_pending(view: View) -> Facts | None:
    reserved = is_true(view.workload, "QuotaReserved") and not view.is_admitted
    return _check_in(["Pending"])(view) if reserved else None


def _requeue_backoff(view: View) -> Facts | None:
    state: Object = (view.workload.get("status") or {}).get("requeueState") or {}
    when = unix_time(state.get("requeueAt"))
    if when is None or when <= view.now:
        return None
    count = int(state.get("count") or 0)
    evictions = f", after {count} eviction{'s' * (count > 1)}" if count else ""
    return {"when": f"in {time_text(when - view.now)}", "evictions": evictions}


def eviction(view: View) -> tuple[str, str]:
    """Return reason and message of the eviction that keeps a run waiting; empty without one."""
    found = view.workload_condition("Evicted")
    if found.get("status") != "True" or is_inactive(view):
        return "", ""
    return str(found.get("reason") or "unknown"), clean(str(found.get("message") or ""))


def _held(view: View) -> str:
    """Return that the quota of an evicted run is still reserved, for the end of a sentence."""
    if not (view.workload.get("status") or {}).get("admission"):
        return ""
    began = unix_time(view.workload_condition("Evicted").get("lastTransitionTime"))
    return f"; its quota is still held{lasting(view, began)}, until its pods have ended"


def _preempted(view: View) -> Facts | None:
    reason, message = eviction(view)
    if reason != "Preempted":
        return None
    found = matched(PREEMPTED, message)
    if found is None:
        return {"by": (after(message).lstrip(": ") or "by another run") + _held(view)}
    why = clean(found["why"]) + _held(view)
    for each in view.snapshot.workloads:
        if each["metadata"].get("uid") == found["uid"]:
            return {"by": f"by {owner(each, view.namespace)}, due to {why}"}
    return {"by": f"by a run that you may not read, due to {why}"}


def _evicted_by(*reasons: str) -> Condition:
    def holds(view: View) -> Facts | None:
        reason, message = eviction(view)
        return {"cause": (message or reason) + _held(view)} if reason in reasons else None

    return holds


def _evicted(view: View) -> Facts | None:
    reason, message = eviction(view)
    if not reason or reason in EVICTED_HERE:
        return None
    return {"reason": reason, "cause": (message or "no message") + _held(view)}


def _queued(view: View) -> Facts | None:
    if not view.queue or view.is_admitted:
        return None
    place = position(view)
    return {"place": f", {place}" if place else "", "cause": after(view.pending_message)}


CONDITIONS: dict[str, Condition] = {
    id: while_waiting(facts)
    for id, facts in {
        "local-queue-missing": _local_queue_missing,
        "local-queue-stopped": _local_queue_stopped,
        "cluster-queue-missing": _cluster_queue_missing,
        "cluster-queue-stopped": _cluster_queue_stopped,
        "cluster-queue-inactive": _cluster_queue_inactive,
        "flavor-missing": _flavor_missing,
        "preempting": _preempting,
        "quota-short": _quota_short,
        "pods-ready-blocked": _pods_ready_blocked,
        "admission-check-rejected": _check_rejected,
        "admission-check-retry": _check_in(["Retry"]),
        "admission-check-pending": _check_pending,
        "requeue-backoff": _requeue_backoff,
        "evicted-preempted": _preempted,
        "evicted-pods-ready-timeout": _evicted_by("PodsReadyTimeout"),
        "evicted-admission-check": _evicted_by("AdmissionCheck"),
        "evicted-queue-stopped": _evicted_by("ClusterQueueStopped", "LocalQueueStopped"),
        "evicted-node-failures": _evicted_by("NodeFailures"),
        "evicted": _evicted,
        "queued": _queued,
    }.items()
}

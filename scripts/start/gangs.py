"""Runs that hold or wait for quota, from Kueue's Workloads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scripts.doctor.api import Object
from scripts.doctor.quota import flavor_refusal
from scripts.observe.cluster import condition, is_true
from scripts.observe.view import unix_time
from scripts.quantity import pod_requests
from scripts.start.quota import Queue, Room, thousandths

LATER = ("PodsReadyTimeout", "AdmissionCheck")
"""Evictions after which a run is queued by the time of the eviction, not of its creation.

Source: GetQueueOrderTimestamp in kubernetes-sigs/kueue:pkg/workload/workload.go."""

Shape = tuple[tuple[tuple[tuple[str, int], ...], frozenset[str]], ...]
"""Of each set of pods: amounts by resource, and the flavors that do not take its pods."""


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A run in a ClusterQueue. Two gangs of the same shape fit in the same places."""

    id: str
    """The Workload's uid."""
    name: str
    queue: str
    priority: int
    queued: float
    """Unix time by which it is ordered among those of its priority."""
    shape: Shape
    held: Mapping[Room, int] | None = None
    """Quota that it holds; None while it waits."""
    began: float = 0.0
    """Unix time at which its quota was reserved."""
    ran: float = 0.0
    """Seconds for which it ran in earlier admissions."""
    limit: float | None = None
    """Seconds for which it may run in all (`maximumExecutionTimeSeconds`); None without a limit."""
    retry: float = 0.0
    """Unix time before which Kueue does not try it."""

    @property
    def order(self) -> tuple[int, float, str]:
        """Return the key by which a queue is sorted."""
        return -self.priority, self.queued, self.id

    def ran_by(self, now: float) -> float:
        """Return the seconds for which it has run until a Unix time."""
        return self.ran + (max(0.0, now - self.began) if self.held is not None else 0.0)


def gang_of(workload: Object, queue: Queue, flavors: Mapping[str, Object]) -> Gang | None:
    """Return the gang of a Workload; None if it neither holds nor waits for quota.

    Raises:
        Problem: a request is not a quantity.
    """
    meta, spec = workload["metadata"], workload.get("spec") or {}
    status: Object = workload.get("status") or {}
    admission: Object = status.get("admission") or {}
    if is_true(workload, "Finished") or spec.get("active") is False:
        return None  # what an inactive run holds is free once its pods have ended
    evicted = condition(workload, "Evicted")
    queued = unix_time(meta.get("creationTimestamp"))
    if evicted.get("status") == "True" and evicted.get("reason") in LATER:
        queued = unix_time(evicted.get("lastTransitionTime")) or queued
    reserved = unix_time(condition(workload, "QuotaReserved").get("lastTransitionTime"))
    owners = [each["name"] for each in meta.get("ownerReferences") or []]
    return Gang(
        id=str(meta.get("uid") or meta["name"]),
        name=f"{meta.get('namespace')}/{owners[0] if owners else meta['name']}",
        queue=queue.name,
        priority=int(spec.get("priority") or 0),
        queued=queued or 0.0,
        shape=_shape(workload, queue, flavors),
        held=_held(admission) if admission and evicted.get("status") != "True" else None,
        began=reserved or queued or 0.0,
        ran=float(status.get("accumulatedPastExecutionTimeSeconds") or 0),
        limit=limit_of(workload),
        retry=unix_time((status.get("requeueState") or {}).get("requeueAt")) or 0.0,
    )


def limit_of(workload: Object) -> float | None:
    """Return the seconds for which a Workload may run; None without a limit."""
    found = (workload.get("spec") or {}).get("maximumExecutionTimeSeconds")
    return float(found) if found else None


def shares_used(workloads: Iterable[Object]) -> list[float]:
    """Return which share of its time limit each Workload that has ended has used."""
    found = []
    for each in workloads:
        limit = limit_of(each)
        began = unix_time(condition(each, "QuotaReserved").get("lastTransitionTime"))
        ended = unix_time(condition(each, "Finished").get("lastTransitionTime"))
        if limit and began and ended and is_true(each, "Finished"):
            past = (each.get("status") or {}).get("accumulatedPastExecutionTimeSeconds") or 0
            found.append(min(1.0, max(0.0, past + ended - began) / limit))
    return found


def _held(admission: Object) -> dict[Room, int]:
    held: dict[Room, int] = {}
    for each in admission.get("podSetAssignments") or []:
        flavors, usage = each.get("flavors") or {}, each.get("resourceUsage") or {}
        for resource, flavor in flavors.items():
            room = (flavor, resource)
            held[room] = held.get(room, 0) + thousandths(usage.get(resource) or 0)
    return held


def _shape(workload: Object, queue: Queue, flavors: Mapping[str, Object]) -> Shape:
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    asked = {
        each["name"]: each.get("resources") or {} for each in status.get("resourceRequests", ())
    }
    covered = {resource for resources, _ in queue.groups for resource in resources}
    names = {name for _, group in queue.groups for name in group}
    found = []
    for each in spec.get("podSets") or []:
        pod: Object = (each.get("template") or {}).get("spec") or {}
        count = int(each.get("count") or 1)
        if each["name"] in asked:
            amounts = {name: thousandths(n) for name, n in asked[each["name"]].items()}
        else:
            amounts = {name: int(n * 1000) * count for name, n in pod_requests(pod).items()}
        if "pods" in covered:
            amounts["pods"] = 1000 * count
        refused = frozenset(n for n in names if flavor_refusal(flavors.get(n) or {}, pod))
        found.append((tuple(sorted((n, a) for n, a in amounts.items() if a)), refused))
    return tuple(found)

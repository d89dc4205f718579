"""States between a queue and the first pod: topologies, what is never admitted, other clusters.

Messages are those of Kueue 0.17 to 0.19: `pkg/cache/scheduler/tas_flavor_snapshot.go`,
`pkg/scheduler/flavorassigner/tas_flavorassigner.go`; reasons are those of its `workload_types.go`.
"""

from __future__ import annotations

import re

from scripts.manifest import GANG
from scripts.observe.view import View, unix_time
from scripts.why import queueing
from scripts.why.holding import while_waiting
from scripts.why.queueing import eviction
from scripts.why.words import Condition, Facts, clean, lasting, matched

TOPOLOGY = (
    r'(?P<cause>topology "[^"]*" (?:doesn\'t allow to fit|allows to fit only)[^;]*'
    r"(?:; excluded: [^;]*)?)"
)
EMPTY_LEVEL = r"(?P<cause>no topology domains at level: (?P<level>[^\s,;]+))"
NO_LEVEL = (
    r"(?P<cause>[Ff]lavor \S+ (?:does not contain the requested level|does not support Topology\w+"
    r"|supports only Topology\w+|information missing in TAS cache)"
    r"|no requested topology level[^,;]*|podset slice topology \S+ is above[^,;]*)"
)
NO_ROOM = (
    "Wait until nodes of one {key} are free, or set kueue.topology.mode: preferred, or a wider key."
)
NO_NODES = (
    "Waiting is no use: no node of the flavor that takes pods has the label {level}; the "
    "administrator labels or uncordons nodes, or set kueue.topology.key to a label that they have."
)
NEVER = ("Misconfigured", "ExceedsMaxQuota", "NoMatchingFlavor")
"""Reasons of Kueue 0.19 (``workload_types.go``) that waiting does not change."""
STARTED_SECONDS = 180.0
"""Seconds after its admission in which Kueue starts a JobSet at the latest: it does within one."""
AFTER = frozenset({"queued", "requeue-backoff"})
"""States that give no cause."""


def _topology(view: View) -> Facts | None:
    message = view.pending_message
    found = matched(TOPOLOGY, message) or matched(EMPTY_LEVEL, message)
    if found is None and _reason(view) == "TopologyPlacementFailed":
        found = {"cause": message}
    if found is None or _topology_level_missing(view):
        return None
    notes = (view.gang_pod.get("metadata") or {}).get("annotations") or {}
    keys = [value for name, value in notes.items() if re.search(r"podset-\w+-topology$", name)]
    key = keys[0] if keys else "topology level"
    if found.get("level"):
        return {
            "cause": clean(found["cause"]),
            "remedy": NO_NODES.format(level=clean(found["level"])),
        }
    return {"cause": clean(found["cause"]), "remedy": NO_ROOM.format(key=key)}


def _topology_level_missing(view: View) -> Facts | None:
    found = matched(NO_LEVEL, view.pending_message)
    return None if found is None else {"cause": clean(found["cause"])}


def _reason(view: View) -> str:
    """Return Kueue's reason (0.19) why quota is not reserved; older releases have one for all."""
    return str(view.workload_condition("QuotaReserved").get("reason") or "")


def _inadmissible(view: View) -> Facts | None:
    """Match a reason that waiting does not change, in words that no other state knows."""
    known = (test for id, test in queueing.CONDITIONS.items() if id not in AFTER)
    message, reason = view.pending_message, _reason(view)
    if not message or reason not in NEVER or any(test(view) for test in known):
        return None
    return None if _topology_level_missing(view) else {"reason": reason, "cause": clean(message)}


def _admitted_suspended(view: View) -> Facts | None:
    """Match an admission that is older than Kueue takes to start a JobSet."""
    began = unix_time(view.workload_condition("Admitted").get("lastTransitionTime"))
    if not view.is_admitted or began is None or eviction(view)[0] or _cluster(view):
        return None
    is_late = view.now - began > STARTED_SECONDS and not view.ranks
    return {"lasting": lasting(view, began)} if is_late else None


def _cluster(view: View) -> str:
    """Return the cluster to which MultiKueue dispatched the run; empty without."""
    return str((view.workload.get("status") or {}).get("clusterName") or "")


def _elsewhere(view: View) -> Facts | None:
    """Match a run in a worker cluster, whose ready jobs MultiKueue copies to this JobSet."""
    jobs = (view.jobset.get("status") or {}).get("replicatedJobsStatus") or []
    ready = any(each.get("name") == GANG and each.get("ready") for each in jobs)
    said = "all its pods are ready" if ready else "its pods are not ready yet, as far as is known"
    is_there = bool(view.jobset) and not view.terminal and _cluster(view)
    return {"cluster": _cluster(view), "ready": f"; {said}"} if is_there else None


CONDITIONS: dict[str, Condition] = {"runs-elsewhere": _elsewhere} | {
    id: while_waiting(facts)
    for id, facts in {
        "topology-does-not-fit": _topology,
        "topology-level-missing": _topology_level_missing,
        "inadmissible": _inadmissible,
        "admitted-suspended": _admitted_suspended,
    }.items()
}

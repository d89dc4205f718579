"""When the runs of views start, and why no start is predicted."""

from collections.abc import Sequence
from dataclasses import replace

from scripts.doctor.api import Object
from scripts.observe.cluster import ALL_WORKLOADS, Snapshot, is_true
from scripts.observe.command import SKEW_SECONDS
from scripts.observe.view import View
from scripts.plan.units import time_text
from scripts.problem import Problem
from scripts.start.forecast import Known, Start, forecast, no_start
from scripts.why.reasons import Kind, Reason

BY_QUOTA = frozenset(
    {
        "preempting",
        "quota-short",
        "pods-ready-blocked",
        "requeue-backoff",
        "evicted",
        "evicted-preempted",
        "evicted-pods-ready-timeout",
        "evicted-node-failures",
        "queued",
    }
)
"""States of a run that starts when there is room in its queue; the others wait for a person."""
PLACEMENT = "topology-does-not-fit"
SHORT = "quota-short"
AGREES_SECONDS = 1.0
"""A start nearer than this contradicts that quota is short."""


def start(view: View, first: Reason) -> Start | None:
    """Return when a run starts; None if it does not wait for its queue."""
    return starts([(view, first)])[0]


def starts(runs: Sequence[tuple[View, Reason]]) -> list[Start | None]:
    """Return when the runs of one namespace start, from one simulation."""
    found = [_without_forecast(view, first) if _waits(view) else None for view, first in runs]
    asked = {
        _uid(view): number
        for number, (view, _) in enumerate(runs)
        if _waits(view) and found[number] is None
    }
    if not asked:
        return found
    view = runs[next(iter(asked.values()))][0]
    known = _known(view)
    predicted: dict[str, Start] = {}
    if isinstance(known, str):
        why = known
    elif not known.local_queues:
        why = "you may not list the LocalQueues (list localqueues)"
    else:
        why = "the quota of its queue or what it asks for is not known"
        try:
            predicted = forecast(known, asked.keys(), view.now)
        except Problem as problem:
            why = f"the documents of Kueue are not as expected ({problem})"
    for uid, number in asked.items():
        view, first = runs[number]
        begin = predicted.get(uid) or no_start(why)
        soon = begin.expected is not None and begin.expected < view.now + AGREES_SECONDS
        if soon and first.id == SHORT:
            begin = no_start("by what you may read there is room now, and Kueue says there is not")
        found[number] = _with_clock(begin, view)
    return found


def _waits(view: View) -> bool:
    is_held = view.terminal or not view.is_suspended or is_true(view.workload, "QuotaReserved")
    return bool(view.workload) and not is_held


def _uid(view: View) -> str:
    return str(view.workload["metadata"].get("uid") or view.workload["metadata"]["name"])


def _without_forecast(view: View, first: Reason) -> Start | None:
    """Return the start of a run whose state does not change with time; None for others."""
    if first.kind in (Kind.FAILED, Kind.UNKNOWN):
        return no_start(f"waiting does not change what keeps it ({first.id})")
    if first.id == PLACEMENT:
        return no_start("its place in the topology cannot be foreseen")
    if first.id not in BY_QUOTA:
        return no_start(f"it waits for what the queue does not decide ({first.id})")
    return None


def _known(view: View) -> Known | str:
    """Return the documents that were read, or why they do not suffice."""
    seen = view.snapshot
    listed = seen.answer("list clusterqueues")
    queues = listed.items
    if not listed.found:
        own = seen.cluster_queue
        if not own:
            return "you may not read the ClusterQueue (get clusterqueues)"
        if (own.get("spec") or {}).get("cohortName"):
            return "you may not read the other queues of the cohort (list clusterqueues)"
        queues = [own]
    cohorts = seen.answer("list cohorts")
    share = any((each.get("spec") or {}).get("cohortName") for each in queues)
    if share and cohorts.unknown:
        return f"what cohorts lend is not known (list cohorts: {cohorts.why})"
    entrances = seen.answer("list localqueues everywhere")
    return Known(
        cluster_queues=queues,
        cohorts=cohorts.items,
        flavors=seen.answer("list resourceflavors").items,
        local_queues=entrances.items if entrances.found else _own_queue(seen),
        workloads=seen.workloads,
        is_all=entrances.found and seen.answer(ALL_WORKLOADS).found,
        left=seen.left,
        limits=seen.deadlines,
        space=view.namespace,
    )


def _own_queue(seen: Snapshot) -> list[Object]:
    queue = seen.local_queue
    if not queue:
        return []
    return [{**queue, "metadata": {**queue["metadata"], "namespace": seen.namespace}}]


def _with_clock(found: Start, view: View) -> Start:
    """Return a start that says by which clock its times are, if this machine's differs."""
    skew = view.snapshot.skew
    if found.earliest is None or abs(skew) <= SKEW_SECONDS:
        return found
    ahead = "ahead of" if skew > 0 else "behind"
    said = (
        f"times are by the API server's clock; this machine's is {time_text(abs(skew))} {ahead} it"
    )
    sentence = f"{found.sentence[:-1]}; {said}."
    return replace(found, reasons=(*found.reasons, said), sentence=sentence)

"""States of a run that a person or a rule holds, or that nothing would start."""

from collections.abc import Callable

from scripts.manifest import KUEUE
from scripts.observe.cluster import priority_class
from scripts.observe.view import View, unix_time
from scripts.why.words import Condition, Facts, clean, lasting, matched

REJECTED = r'AdmissionChecks? in Rejected state: "(?P<check>[^"]+)"(?: \((?P<why>.*?)\)(?=;|$))?'
STOPPED_BY = "megatron-dpo/stopped-by"
"""Annotation of a JobSet that `megatron-dpo stop` has stopped: who did."""


def while_waiting(facts: Callable[[View], Facts | None]) -> Condition:
    """Return the condition for a run that has not ended and has no pods yet."""

    def holds(view: View) -> Facts | None:
        waits = bool(view.jobset) and not view.terminal and view.is_suspended
        return facts(view) if waits else None

    return holds


def is_inactive(view: View) -> bool:
    """Return whether the Workload of a run that has not ended is deactivated."""
    return (view.workload.get("spec") or {}).get("active") is False and not view.terminal


def has_kueue(view: View) -> bool:
    """Return whether Kueue's API is served; True if that is not known."""
    groups = view.snapshot.groups
    return groups is None or KUEUE in groups


def _deactivation(view: View) -> tuple[str, str]:
    """Return why an inactive Workload is: the reason of its eviction, and the message."""
    found = view.workload_condition("Evicted")
    target = view.workload_condition("DeactivationTarget")
    reason = str(found.get("reason") or target.get("reason") or "")
    return reason, clean(str(found.get("message") or target.get("message") or ""))


def _limit(view: View, named: str, words: str) -> Facts | None:
    reason, message = _deactivation(view)
    is_limit = named in reason or words in message
    return {"cause": message or reason} if is_inactive(view) and is_limit else None


def _requeuing_limit(view: View) -> Facts | None:
    return _limit(view, "RequeuingLimitExceeded", "maximum number of re-queuing")


def _max_exec_time(view: View) -> Facts | None:
    return _limit(view, "MaximumExecutionTimeExceeded", "maximum execution time")


def _stopped(view: View) -> Facts | None:
    notes = view.jobset["metadata"].get("annotations") or {} if view.jobset else {}
    if not is_inactive(view) or _requeuing_limit(view) or _max_exec_time(view):
        return None
    if STOPPED_BY not in notes and _deactivation(view)[1].count(" due to "):
        return None
    return {"by": f" by {notes[STOPPED_BY]}" if notes.get(STOPPED_BY) else " by a person"}


def rejection(view: View) -> dict[str, str] | None:
    """Return check and message of the admission check for which Kueue deactivated a run."""
    return matched(REJECTED, _deactivation(view)[1]) if is_inactive(view) else None


def _deactivated(view: View) -> Facts | None:
    others = (_requeuing_limit, _max_exec_time, _stopped, rejection)
    if not is_inactive(view) or any(test(view) for test in others):
        return None
    reason, message = _deactivation(view)
    return {"cause": message or reason}


def _suspended(view: View) -> Facts | None:
    return {} if not view.queue else None


def _kueue_missing(view: View) -> Facts | None:
    return {} if view.queue and not has_kueue(view) else None


def _priority_class_missing(view: View) -> Facts | None:
    absent = view.snapshot.answer("get workloadpriorityclasses").absent
    return {"priority": priority_class(view.jobset)} if absent and not view.workload else None


def _workload_missing(view: View) -> Facts | None:
    asked = view.snapshot.answer("list workloads")
    if not view.queue or not asked.found or view.workload or _priority_class_missing(view):
        return None
    return {"lasting": lasting(view, unix_time(view.jobset["metadata"]["creationTimestamp"]))}


def _workload_finished(view: View) -> Facts | None:
    found = view.workload_condition("Finished")
    if found.get("status") != "True":
        return None
    cause = clean(str(found.get("message") or found.get("reason") or "no message"))
    return {"cause": cause, "workload": view.workload["metadata"]["name"]}


CONDITIONS: dict[str, Condition] = {
    "stopped": _stopped,
    "requeuing-limit": _requeuing_limit,
    "max-exec-time": _max_exec_time,
    "deactivated": _deactivated,
    "suspended": while_waiting(_suspended),
    "kueue-missing": while_waiting(_kueue_missing),
    "priority-class-missing": while_waiting(_priority_class_missing),
    "workload-missing": while_waiting(_workload_missing),
    "workload-finished": while_waiting(_workload_finished),
}

"""States in which pods do not exist, because the API server or the scheduler refuses them."""

from __future__ import annotations

import re
from collections.abc import Callable

from scripts.doctor.api import Object
from scripts.observe.cluster import condition
from scripts.observe.view import Rank, View
from scripts.why.words import Condition, Facts, after, clean, matched, who

CREATION = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed")
"""Reasons of events about pods, Jobs and Services that were not created."""
SHORT = r"Insufficient (?P<resource>[^\s,]+?)[.,]?(?:\s|$)"
CLAIM = re.compile(r"get persistentvolumeclaims of (?P<name>.+)")
Test = Callable[[str], bool]


def _is_started(view: View) -> bool:
    """Return whether the run should have pods that run, and has not ended."""
    return bool(view.gang) and not view.terminal and not view.is_suspended


def _refusal(view: View) -> str:
    """Return the newest refusal of a pod while pods are missing; empty without one."""
    if not _is_started(view) or len(view.ranks) >= view.nodes:
        return ""
    found = view.events(*CREATION)
    return clean(str(found[0].get("message") or "")) if found else ""


REFUSALS: tuple[tuple[str, Test], ...] = (
    ("pods-refused-security", lambda said: "violates PodSecurity" in said),
    ("pods-refused-quota", lambda said: "exceeded quota" in said or "must specify" in said),
    ("pods-refused-webhook", lambda said: "webhook" in said or "ValidatingAdmission" in said),
    ("pods-refused", lambda said: True),
)
"""States of a refusal, the first that fits."""


def _refused(id: str) -> Condition:
    def holds(view: View) -> Facts | None:
        said = _refusal(view)
        fitting = next((state for state, test in REFUSALS if test(said)), "") if said else ""
        return {"cause": said} if fitting == id else None

    return holds


def _unscheduled(view: View, reason: str) -> tuple[list[Rank], str]:
    """Return the ranks that the scheduler left for a reason, and its message."""
    by_pod = {rank.pod: rank for rank in view.ranks}
    found, message = [], ""
    for pod in view.snapshot.pods if _is_started(view) else ():
        said = condition(pod, "PodScheduled")
        rank = by_pod.get(pod["metadata"]["name"])
        if rank and said.get("status") == "False" and said.get("reason") == reason:
            found.append(rank)
            message = str(said.get("message") or "")
    return found, clean(message)


def _scheduling_gated(view: View) -> Facts | None:
    ranks, _ = _unscheduled(view, "SchedulingGated")
    pods = {rank.pod for rank in ranks}
    gates = {
        gate["name"]
        for pod in view.snapshot.pods
        if pod["metadata"]["name"] in pods
        for gate in pod["spec"].get("schedulingGates") or []
    }
    return {"who": who(ranks), "gates": ", ".join(sorted(gates))} if ranks else None


def _claims(view: View) -> dict[str, tuple[bool, Object]]:
    """Return by name of each claim whether it is known to be absent, and the object."""
    return {
        match["name"]: (answer.absent, answer.content if answer.found else {})
        for key, answer in view.snapshot.answers.items()
        if (match := CLAIM.fullmatch(key))
    }


def _claim_missing(view: View) -> Facts | None:
    absent = sorted(name for name, (is_absent, _) in _claims(view).items() if is_absent)
    return {"claim": absent[0]} if absent and _is_started(view) else None


def _claim_unbound(view: View) -> Facts | None:
    if not _is_started(view):
        return None
    for name, (_, claim) in sorted(_claims(view).items()):
        phase = (claim.get("status") or {}).get("phase")
        if claim and phase != "Bound":
            said = clean(_unscheduled(view, "Unschedulable")[1])
            return {"claim": name, "cause": after(said or f"its phase is {phase or 'not set'}")}
    return None


UNSCHEDULABLE: tuple[tuple[str, Test], ...] = (
    ("claim", lambda said: "persistentvolumeclaim" in said.lower()),
    ("unschedulable-resources", lambda said: re.search(SHORT, said) is not None),
    ("unschedulable-taint", lambda said: "untolerated taint" in said),
    ("unschedulable-affinity", lambda said: "affinity" in said or "selector" in said),
    ("unschedulable", lambda said: True),
)
"""States of the scheduler's message, the first that fits; `claim` has states of its own."""


def _unschedulable(id: str) -> Condition:
    def holds(view: View) -> Facts | None:
        ranks, said = _unscheduled(view, "Unschedulable")
        fitting = next((state for state, test in UNSCHEDULABLE if test(said)), "")
        if not ranks or fitting != id:
            return None
        short = matched(SHORT, said) or {}
        return {"who": who(ranks), "cause": said, **short}

    return holds


CONDITIONS: dict[str, Condition] = {
    **{id: _refused(id) for id, _ in REFUSALS},
    "scheduling-gated": _scheduling_gated,
    "claim-missing": _claim_missing,
    "claim-unbound": _claim_unbound,
    **{id: _unschedulable(id) for id, _ in UNSCHEDULABLE if id != "claim"},
}

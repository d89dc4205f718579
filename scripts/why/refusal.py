"""States in which pods do not exist, because the API server or the scheduler refuses them."""

import re
from collections.abc import Callable

from scripts.doctor.api import Object
from scripts.observe.cluster import CORDONED, condition
from scripts.observe.view import Rank, View
from scripts.quantity import parse_quantity
from scripts.why.words import Condition, Facts, Template, after, clean, compact, matched, who

CREATION = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed")
"""Reasons of events about pods, Jobs and Services that were not created."""
TAINT = r"untolerated taint\(?s?\)? \{(?!node\.kubernetes\.io/)(?P<key>[^:}]+)"
UNHEALTHY = r"untolerated taint\(?s?\)? \{(?P<key>node\.kubernetes\.io/[^:}]+)"
"""Taints that Kubernetes sets by itself."""
OWN_NODES = re.compile(
    r"\d+ node\(s\) had untolerated taint\(?s?\)? "
    r"\{node-role\.kubernetes\.io/(?:control-plane|master)[^}]*\}(?:, |(?=\.))"
)
"""Nodes of the control plane, which each message of the scheduler has: they are not the cause."""
AUTOSCALERS = ("TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated")
"""Reasons of the events of the cluster autoscaler and Karpenter about a pod."""
SHORT = r"Insufficient (?P<resource>[^\s,]+?)[.,]?(?:\s|$)"
ACCOUNT = r'error looking up service account .*serviceaccount "(?P<account>[^"]+)" not found'
PRIORITY = r"no PriorityClass with name (?P<priority>\S+) was found"
SECURITY = r"violates PodSecurity|security context constraint"
QUOTA = r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>\S+), used: (?P<used>\S+), "
RAISE = Template(
    ": `kubectl patch resourcequota {quota} -n {namespace} --type merge -p {patch}` makes room"
)
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
    ("pods-refused-security", lambda said: matched(SECURITY, said) is not None),
    ("pods-refused-quota", lambda said: "exceeded quota" in said or "must specify" in said),
    ("service-account-missing", lambda said: matched(ACCOUNT, said) is not None),
    ("pod-priority-missing", lambda said: matched(PRIORITY, said) is not None),
    ("pods-refused-webhook", lambda said: "webhook" in said or "ValidatingAdmission" in said),
    ("pods-refused", lambda said: True),
)
"""States of a refusal, the first that fits."""


def _refused(id: str) -> Condition:
    def holds(view: View) -> Facts | None:
        said = _refusal(view)
        fitting = next((state for state, test in REFUSALS if test(said)), "") if said else ""
        return {"cause": said, **_named(view, said)} if fitting == id else None

    return holds


def _named(view: View, said: str) -> Facts:
    """Return what a refusal names: an object that does not exist, a level, a quota."""
    named = matched(ACCOUNT, said) or matched(PRIORITY, said) or {}
    level = "privileged" if 'PodSecurity "baseline' in said else "baseline"
    return {**named, "level": level, "raise": "", **_raised(view, said)}


def _raised(view: View, said: str) -> Facts:
    """Return the change of a ResourceQuota after which the pods that are missing fit."""
    found = matched(QUOTA, said)
    if found is None:
        return {}
    asked, used = (_amounts(found[key]) for key in ("requested", "used"))
    missing = view.nodes - len(view.ranks)
    hard = {
        name: f"{parse_quantity(used.get(name, 0)) + missing * parse_quantity(amount):f}"
        for name, amount in asked.items()
    }
    return {"raise": RAISE, "quota": found["quota"], "patch": compact({"spec": {"hard": hard}})}


def _amounts(text: str) -> dict[str, str]:
    """Return amounts by resource.

    >>> _amounts("pods=1,requests.cpu=500m")
    {'pods': '1', 'requests.cpu': '500m'}
    """
    return dict(re.findall(r"([^\s,=]+)=([^\s,=]+)", text))


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


def _of_autoscaler(view: View) -> str:
    """Return what the autoscaler says of the pods last, for the end of a sentence."""
    found = [
        each
        for each in view.events(*AUTOSCALERS, "FailedScheduling")
        if each["reason"] in AUTOSCALERS or "nodepool" in str(each.get("message")).lower()
    ]
    return f"; autoscaler: {clean(str(found[0].get('message') or ''))}" if found else ""


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
    """Return by name of each claim whether it is known to be absent, and the object.

    A claim that a running pod mounts is there and bound: none while one runs.
    """
    if any(rank.phase == "Running" for rank in view.ranks):
        return {}
    return {
        match["name"]: (answer.absent, answer.content if answer.found else {})
        for key, answer in view.snapshot.answers.items()
        if (match := CLAIM.fullmatch(key))
    }


def _claim_missing(view: View) -> Facts | None:
    absent = sorted(name for name, (is_absent, _) in _claims(view).items() if is_absent)
    if not absent or not _is_started(view):
        return None
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "CLASS",
        "resources": {"requests": {"storage": "SIZE"}},
    }
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": absent[0]}}
    return {"claim": absent[0], "made": compact({**made, "spec": spec})}


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
    ("nodes-cordoned", lambda said: CORDONED in said),
    (
        "nodes-unhealthy",
        lambda said: re.search(UNHEALTHY, said) is not None and not re.search(TAINT, said),
    ),
    ("unschedulable-taint", lambda said: "untolerated taint" in said),
    ("unschedulable-affinity", lambda said: "selector" in said),
    ("unschedulable", lambda said: True),
)
"""States of the scheduler's message, the first that fits; `claim` has states of its own where the
claim may be read, and it is not there or not bound."""


def _unschedulable(id: str) -> Condition:
    def holds(view: View) -> Facts | None:
        ranks, said = _unscheduled(view, "Unschedulable")
        deciding = OWN_NODES.sub("", said)
        deciding = deciding if re.match(r"[^:]+: \w", deciding) else said
        fitting = next((state for state, test in UNSCHEDULABLE if test(deciding)), "")
        if fitting == "claim" and not (_claim_missing(view) or _claim_unbound(view)):
            fitting = "unschedulable"
        if not ranks or fitting != id:
            return None
        patterns = (SHORT, TAINT, UNHEALTHY)
        named = next(filter(None, (matched(each, deciding) for each in patterns)), {})
        cordoned = view.snapshot.answer("list nodes").items
        nodes = tuple(str(each["metadata"]["name"]) for each in cordoned) or ("NODE",)
        chosen = view.gang_pod.get("spec", {}).get("nodeSelector") or {"KEY": "VALUE"}
        labels = tuple(f"{key}={value}" for key, value in chosen.items())
        more = _of_autoscaler(view) if fitting == "unschedulable-resources" else ""
        facts = {"who": who(ranks), "cause": said + more, "nodes": nodes, "labels": labels}
        facts |= {"key": "KEY"}
        return {**facts, **named}

    return holds


CONDITIONS: dict[str, Condition] = {
    **{id: _refused(id) for id, _ in REFUSALS},
    "scheduling-gated": _scheduling_gated,
    "claim-missing": _claim_missing,
    "claim-unbound": _claim_unbound,
    **{id: _unschedulable(id) for id, _ in UNSCHEDULABLE if id != "claim"},
}

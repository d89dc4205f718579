"""States between a queue and the first pod: topologies, what is never admitted, other clusters.

Messages are those of Kueue 0.17 to 0.19: `pkg/cache/scheduler/tas_flavor_snapshot.go`,
`pkg/scheduler/flavorassigner/tas_flavorassigner.go`; reasons are those of its `workload_types.go`.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from scripts.doctor.api import Object
from scripts.manifest import GANG, KUEUE
from scripts.observe.view import View, unix_time
from scripts.quantity import format_amount, parse_quantity
from scripts.why import queueing
from scripts.why.holding import while_waiting
from scripts.why.queueing import eviction
from scripts.why.words import Condition, Facts, Template, clean, compact, lasting, matched

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
PATCH = "`kubectl patch jobset {run} -n {namespace} --type json -p {patch}`"
AGAIN = "and `kubectl delete workload {workload} -n {namespace} --wait=false`"
"""Kueue makes the Workload again: of a changed JobSet it sees containers and tolerations only.

Without waiting: kubectl would wait for ever for the new one, which has the same name.
"""
OTHER_TOPOLOGY = Template(
    f"{PATCH}, `kubectl delete jobs -l jobset.sigs.k8s.io/jobset-name={{run}} -n {{namespace}}` "
    f"{AGAIN}"
)
"""JobSet makes its Jobs again: it would add the new annotation to the old, and Kueue admits one."""
NO_ROOM = Template(
    "Wait until nodes of one {key} are free, or set kueue.topology.mode: preferred, or a wider key"
)
PREFERRED = Template(f"{NO_ROOM}; {OTHER_TOPOLOGY} make it a preference of this run.")
NO_NODES = Template(
    "Waiting is no use: no node of the flavor that takes pods has the label {level}; the "
    "administrator labels or uncordons nodes, or set kueue.topology.key to a label that they have."
)
EXCLUDED = re.compile(r"Total nodes: (\d+); excluded: (.*)")
EXCLUSION = re.compile(r'(\w+)(?: "([^"]*)")?: (\d+)')
"""The kind, its name and the number of nodes."""
EXCEEDED = (
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?:previously considered "
    r"podsets requests \((?P<before>[^)]*)\) \+ current podset )?request (?:\((?P<now>[^)]*)\) )?> "
    r"maximum capacity \((?:(?P<whole>\S+) > )?(?P<most>[^)]*)\)"
)
"""Before Kueue 0.15 with the sum of all requests."""
UNCOVERED = r"resource (?P<resource>\S+) unavailable in ClusterQueue"
MISMATCH = (
    r"(?P<cause>untolerated taint (?:\{(?P<key>\S+) (?P<value>\S*) (?P<effect>\S+) .*?)?"
    r" in flavor [^\s,;]+|flavor (?P<flavor>\S+) doesn't match node affinity)"
)
FITS = "Set tolerations, nodeSelector and affinity to what the flavor's nodes have"
FIT = Template(f"{FITS}, or use another queue.")
NO_NODE_FITS = Template(f"Waiting is no use. {FITS}, and install again; or use another queue.")
TOLERATE = Template(f"{FITS}, or use another queue; {PATCH} does it for this run.")
SELECT = Template(f"{FITS}, or use another queue; {PATCH} {AGAIN} do it for this run.")
NOT_SELECTED = r"(?i)namespace doesn't match"
REQUIRED = re.compile(rf"{re.escape(KUEUE)}/podset-\w+-topology")
NEVER = ("Misconfigured", "ExceedsMaxQuota", "NoMatchingFlavor", "Inadmissible", "AdmissionGated")
"""Reasons of Kueue (``workload_types.go``) that waiting does not change."""
NEVER_SAID = (
    r"^(?:failed to assign flavors|resources validation failed|resources didn't satisfy LimitRange)"
)
"""The same in words, where the reason is Pending: unless the feature gate
UnadmittedWorkloadsObservability is on, which it is not by default (``resources.go``,
``flavorassigner.go``)."""
PREEMPTION_GATED = "requires preemption"
STARTED_SECONDS = 180.0
"""Seconds after its admission in which Kueue starts a JobSet at the latest: it does within one."""
AFTER = frozenset({"queued", "requeue-backoff"})


def _topology(view: View) -> Facts | None:
    message = view.pending_message
    found = matched(TOPOLOGY, message) or matched(EMPTY_LEVEL, message)
    if found is None and _reason(view) == "TopologyPlacementFailed":
        found = {"cause": message}
    if found is None or _topology_level_missing(view):
        return None
    cause = clean(found["cause"])
    if found.get("level"):
        return {"cause": cause, "remedy": NO_NODES, "level": clean(found["level"])}
    if _excludes_every_node(cause):
        return {"cause": cause, "remedy": NO_NODE_FITS}
    keys = [key for _, _, key in _topologies(view)]
    preferred = f"{KUEUE}/podset-preferred-topology"
    changes = [
        change
        for at, name, key in _topologies(view)
        if name == f"{KUEUE}/podset-required-topology"
        for change in (_drop(at, name), _add(f"{at}/{_escaped(preferred)}", key))
    ]
    remedy = PREFERRED if changes else Template(f"{NO_ROOM}.")
    key = keys[0] if keys else "topology level"
    facts = {"cause": cause, "remedy": remedy, "key": key, "patch": compact(changes)}
    return {**facts, "workload": view.workload["metadata"]["name"]}


def _excludes_every_node(cause: str) -> bool:
    """Return whether no node is short of resources or unhealthy: the pods fit none of them.

    >>> _excludes_every_node('Total nodes: 3; excluded: taint "a=b:NoSchedule": 2, nodeSelector: 1')
    True
    >>> _excludes_every_node('Total nodes: 3; excluded: nodeSelector: 2, resource "cpu": 1')
    False
    """
    found = EXCLUDED.search(cause)
    lasting = (
        int(count)
        for kind, name, count in EXCLUSION.findall(found[2] if found else "")
        if kind != "resource" and not name.startswith("node.kubernetes.io/")
    )
    return found is not None and sum(lasting) >= int(found[1]) > 0


def _topology_level_missing(view: View) -> Facts | None:
    found = _never(NO_LEVEL, view)
    if found is None:
        return None
    changes = [_drop(at, name) for at, name, _ in _topologies(view)]
    name = view.workload["metadata"]["name"]
    facts = {"again": OTHER_TOPOLOGY, "patch": compact(changes), "workload": name}
    return {"cause": clean(found["cause"]), **facts}


def _templates(view: View) -> Iterator[tuple[str, Object]]:
    """Yield the JSON pointer of each pod template of the JobSet, and the template."""
    for number, job in enumerate(view.jobset["spec"]["replicatedJobs"]):
        at = f"/spec/replicatedJobs/{number}/template/spec/template"
        yield at, job["template"]["spec"]["template"]


def _topologies(view: View) -> Iterator[tuple[str, str, str]]:
    """Yield pointer, name and level of each annotation that asks for a topology."""
    for at, pod in _templates(view):
        notes = (pod.get("metadata") or {}).get("annotations") or {}
        for name, key in notes.items():
            if REQUIRED.fullmatch(name):
                yield f"{at}/metadata/annotations", name, key


def _escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _drop(at: str, name: str) -> Object:
    return {"op": "remove", "path": f"{at}/{_escaped(name)}"}


def _add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}


def _flavor_mismatch(view: View) -> Facts | None:
    """Match pods that a flavor does not take; its taint and its labels are what they lack."""
    found = _never(MISMATCH, view)
    if found is None:
        return None
    changes = _tolerations(view, found) if found["key"] else _selectors(view, found["flavor"] or "")
    remedy = (TOLERATE if found["key"] else SELECT) if changes else FIT
    name = view.workload["metadata"]["name"]
    facts = {"remedy": remedy, "patch": compact(changes), "workload": name}
    return {"cause": clean(found["cause"]), **facts}


def _tolerations(view: View, taint: Mapping[str, str]) -> list[Object]:
    toleration = {"key": taint["key"], "operator": "Equal", "value": taint["value"]}
    toleration |= {"effect": taint["effect"]}
    return [
        _add(f"{at}/spec/tolerations/-", toleration)
        if pod["spec"].get("tolerations")
        else _add(f"{at}/spec/tolerations", [toleration])
        for at, pod in _templates(view)
    ]


def _selectors(view: View, flavor: str) -> list[Object]:
    listed = view.snapshot.answer("list resourceflavors").items
    named = [each for each in listed if each["metadata"]["name"] == flavor]
    labels = (named[0].get("spec") or {}).get("nodeLabels") or {} if named else {}
    return [
        _add(f"{at}/spec/nodeSelector/{_escaped(name)}", labels[name])
        for at, pod in _templates(view)
        for name, value in (pod["spec"].get("nodeSelector") or {}).items()
        if labels.get(name, value) != value
    ]


def _namespace_not_selected(view: View) -> Facts | None:
    if matched(NOT_SELECTED, view.pending_message) is None:
        return None
    spec: Object = view.snapshot.cluster_queue.get("spec") or {}
    selector = spec.get("namespaceSelector") or {}
    wanted = dict(selector.get("matchLabels") or {})
    for each in selector.get("matchExpressions") or []:
        if each.get("operator") == "In":
            wanted[each["key"]] = each["values"][0]
    labels = tuple(f"{key}={value}" for key, value in wanted.items()) or ("KEY=VALUE",)
    return {"cause": clean(view.pending_message), "labels": labels}


def _quota_uncovered(view: View) -> Facts | None:
    found = matched(UNCOVERED, view.pending_message)
    if found is None:
        return None
    resource = clean(found["resource"])
    entry = {"name": resource, "nominalQuota": "QUOTA"}
    groups = (view.snapshot.cluster_queue.get("spec") or {}).get("resourceGroups") or []
    changes = [_add("/spec/resourceGroups/0/coveredResources/-", resource)] + [
        _add(f"/spec/resourceGroups/0/flavors/{number}/resources/-", entry)
        for group in groups[:1]
        for number, _ in enumerate(group["flavors"])
    ]
    patch = compact(changes) if groups else "PATCH"
    return {"resource": resource, "cluster_queue": queueing.cluster_queue(view), "patch": patch}


def _quota_exceeds_maximum(view: View) -> Facts | None:
    found = _never(EXCEEDED, view)
    if found is None:
        return None
    resource, flavor = found["resource"], found["flavor"]
    requests = (found[each] for each in ("before", "now", "whole") if found[each])
    asked = sum(map(parse_quantity, requests), Decimal())
    more = asked - parse_quantity(found["most"])
    changes = [
        _add(f"{at}/nominalQuota", f"{parse_quantity(entry['nominalQuota']) + more:f}")
        for at, entry in _quotas(view, resource, flavor)
    ]
    return {
        "resource": resource,
        "flavor": flavor,
        "asked": format_amount(resource, asked),
        "most": found["most"],
        "cluster_queue": queueing.cluster_queue(view),
        "patch": compact(changes) if changes else "PATCH",
    }


def _quotas(view: View, resource: str, flavor: str) -> Iterator[tuple[str, Object]]:
    """Yield JSON pointer and content of the ClusterQueue's quota of a resource of a flavor."""
    spec: Object = view.snapshot.cluster_queue.get("spec") or {}
    for g, group in enumerate(spec.get("resourceGroups") or []):
        for f, each in enumerate(group["flavors"]):
            for r, entry in enumerate(each["resources"]):
                if (each["name"], entry["name"]) == (flavor, resource):
                    yield f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}", entry


def _reason(view: View) -> str:
    """Return Kueue's reason (0.19) why quota is not reserved; older releases have one for all."""
    return str(view.workload_condition("QuotaReserved").get("reason") or "")


def _never(pattern: str, view: View) -> dict[str, str] | None:
    """Match what Kueue says of a flavor, unless another flavor is only short of quota."""
    pod_sets = re.split(r"(?=couldn't assign flavors)", view.pending_message)
    found = (matched(pattern, each) for each in pod_sets if not matched(queueing.SHORT, each))
    return next(filter(None, found), None)


def _inadmissible(view: View) -> Facts | None:
    """Match a reason that waiting does not change, in words that no other state knows."""
    known = (test for id, test in {**queueing.CONDITIONS, **NEVER_FITS}.items() if id not in AFTER)
    message, reason = view.pending_message, _reason(view)
    is_never = message and (reason in NEVER or matched(NEVER_SAID, message) is not None)
    if not is_never or PREEMPTION_GATED in message or any(test(view) for test in known):
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


NEVER_FITS: dict[str, Condition] = {
    "namespace-not-selected": _namespace_not_selected,
    "quota-uncovered": _quota_uncovered,
    "quota-exceeds-maximum": _quota_exceeds_maximum,
    "flavor-mismatch": _flavor_mismatch,
}
CONDITIONS: dict[str, Condition] = {"runs-elsewhere": _elsewhere} | {
    id: while_waiting(facts)
    for id, facts in {
        **NEVER_FITS,
        "topology-does-not-fit": _topology,
        "topology-level-missing": _topology_level_missing,
        "inadmissible": _inadmissible,
        "admitted-suspended": _admitted_suspended,
    }.items()
}

"""Quota for the whole gang: of the ClusterQueue, and the namespace's ResourceQuotas.

Kueue admits all replicated jobs (PodSets) together or none; from each resource group a PodSet gets
one flavor for all of its resources (kubernetes-sigs/kueue:pkg/scheduler/flavorassigner). Usage by
other runs does not count, since it ends.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import yaml

from scripts.doctor.api import CLUSTER_QUEUES, COHORTS, FLAVORS, QUOTAS, Answer, Object
from scripts.doctor.findings import Finding, fail, ok, unchecked, warn
from scripts.doctor.nodes import untolerated
from scripts.doctor.queue import cluster_queue, cluster_queue_name
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release, ReplicatedJob
from scripts.quantity import add_amounts, format_amount, parse_amounts, parse_quantity, pod_limits

CONFIG_KEY = "controller_manager_config.yaml"
SHORT_SECONDS = 600
"""A pull of an image of 25 GB at 42 MB/s."""
Amounts = Mapping[str, Decimal]


@dataclass(frozen=True, kw_only=True)
class KueueConfig:
    """`resources` of Kueue's Configuration (config.kueue.x-k8s.io)."""

    known: bool = False
    """False when it could not be read, so that the other fields are Kueue's defaults."""
    excluded: tuple[str, ...] = ()
    """excludeResourcePrefixes."""
    ignores_undeclared: bool = False
    """quotaCheckStrategy: IgnoreUndeclared."""
    transformed: frozenset[str] = frozenset()
    """Inputs of `transformations`; their outputs are not computed here."""
    ready_seconds: float = 1800
    """waitForPodsReady.timeout; on by default since Kueue 0.19
    (its apis/config/v1beta2/defaults.go)."""
    recovery_seconds: float = 1800
    """waitForPodsReady.recoveryTimeout, for a run that restarts; by default the timeout."""

    def counted(self, total: Amounts, covered: Collection[str]) -> dict[str, Decimal]:
        """Return the resources that need a quota.

        >>> KueueConfig(excluded=("rdma/",)).counted({"rdma/x": Decimal(1)}, [])
        {}
        """
        return {
            name: amount
            for name, amount in total.items()
            if amount
            and not name.startswith(self.excluded)
            and name not in self.transformed
            and (name in covered or not self.ignores_undeclared)
        }


def read_kueue_config(answer: Answer) -> KueueConfig:
    """Return the configuration of a ConfigMap, or the defaults."""
    text = (answer.content.get("data") or {}).get(CONFIG_KEY) if answer.found else None
    try:
        content = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return KueueConfig()
    if not isinstance(content, dict):
        return KueueConfig()
    resources: Object = content.get("resources") or {}
    patience: Object = content.get("waitForPodsReady") or {}
    ready_seconds = _seconds(patience.get("timeout")) or KueueConfig.ready_seconds
    return KueueConfig(
        known=True,
        excluded=tuple(resources.get("excludeResourcePrefixes") or ()),
        ignores_undeclared=resources.get("quotaCheckStrategy") == "IgnoreUndeclared",
        transformed=frozenset(each["input"] for each in resources.get("transformations") or []),
        ready_seconds=ready_seconds,
        recovery_seconds=_seconds(patience.get("recoveryTimeout")) or ready_seconds,
    )


def _seconds(duration: object) -> float:
    """Return the seconds of a duration of Go; 0 for none.

    >>> _seconds("1h30m0s")
    5400.0
    """
    units = {"h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"([0-9.]+)([hms])(?!s)", str(duration or ""))
    return float(sum(float(amount) * units[unit] for amount, unit in parts))


def check_ready_time(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Warn where Kueue may evict the run before its pods are ready.

    With stages in pods of their own the gang is not ready before they end; otherwise only the
    image pull counts.
    """
    config, staged = read_kueue_config(snapshot.kueue_config), len(release.jobset.jobs) > 1
    if not release.jobset.queue:
        return []
    return [*_start_time(config, staged=staged), *_recovery_time(config)]


def _start_time(config: KueueConfig, *, staged: bool) -> list[Finding]:
    if not (staged or config.ready_seconds < SHORT_SECONDS):
        return []
    known = "" if config.known else ", the default since 0.19: its configuration may not be read"
    what = "clone, download and image pull" if staged else "the image pull"
    found = f"Kueue evicts the run if {what} take longer than {config.ready_seconds:g} s{known}"
    remedy = "stages.placement: inline, or " if staged else "pull the image before, or "
    remedy += "the administrator raises waitForPodsReady.timeout"
    return [warn("ready-time", "time to become ready", found, remedy)]


def _recovery_time(config: KueueConfig) -> list[Finding]:
    """Warn where Kueue may evict a run that restarts; a shorter start is warned of already."""
    seconds = config.recovery_seconds
    if seconds >= min(SHORT_SECONDS, config.ready_seconds):
        return []
    found = f"Kueue evicts a run that restarts if its pods are not ready again in {seconds:g} s, "
    found += "and pods of a lost node are replaced after about 2 minutes, with an image pull"
    remedy = "the administrator raises waitForPodsReady.recoveryTimeout"
    return [warn("recovery-time", "time to become ready again", found, remedy)]


def check_quota(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check coverage, then quota; nothing if the ClusterQueue can't be read."""
    queue = cluster_queue(release, snapshot)
    if queue is None:
        return []
    config = read_kueue_config(snapshot.kueue_config)
    covered = {
        name
        for group in queue["spec"].get("resourceGroups") or []
        for name in group["coveredResources"]
    }
    needed = {
        job.name: config.counted(job.total, covered)
        | ({"pods": Decimal(job.count)} if "pods" in covered else {})
        for job in release.jobset.jobs
    }
    name = cluster_queue_name(release, snapshot)
    lost = {resource for each in needed.values() for resource in each} - covered
    asked = {resource for job in release.jobset.jobs for resource in job.total}
    return [
        *(_uncovered(resource, name, config) for resource in sorted(lost)),
        *(_transformed(resource) for resource in sorted(asked & config.transformed)),
        *_quotas(release, snapshot, queue, needed),
    ]


def _uncovered(resource: str, queue: str, config: KueueConfig) -> Finding:
    found = f"ClusterQueue {queue} has no quota for it, so the run would never be admitted"
    if not config.known:
        found += " (unless Kueue's configuration, which may not be read, leaves it out)"
    remedy = (
        f"the administrator adds it to coveredResources; or drop it: resources.limits.{resource}"
    )
    return fail("quota-uncovered", f"quota {resource}", found, f"{remedy}: null")


def _transformed(resource: str) -> Finding:
    found = "not checked, because Kueue's configuration transforms it to another resource"
    return warn("quota-transformed", f"quota {resource}", found)


def _quotas(
    release: Release, snapshot: Snapshot, queue: Object, needed: Mapping[str, Amounts]
) -> list[Finding]:
    """Check each resource group on its own: first fit over the PodSets, as Kueue assigns them."""
    members = snapshot.listed(CLUSTER_QUEUES).items
    found: list[Finding] = []
    for group in queue["spec"].get("resourceGroups") or []:
        room = {
            each["name"]: {
                entry["name"]: quota_limit(queue, each["name"], entry, members)
                for entry in each["resources"]
            }
            for each in group["flavors"]
        }
        flavors = _flavors(group, snapshot)
        for job in release.jobset.jobs:
            wanted = {
                name: amount
                for name, amount in needed[job.name].items()
                if name in group["coveredResources"]
            }
            if wanted:
                found.append(_assign(job, wanted, room, flavors, queue))
    return found


@dataclass(frozen=True, kw_only=True)
class _Flavors:
    """The flavors of a resource group that this user can read."""

    specs: Mapping[str, Object]
    borrows: bool
    """Whether there may be Cohort objects, whose own quota or parent may lend more."""


def flavor_refusal(spec: Object, pod: Object) -> str:
    """Return why Kueue would not assign a flavor to pods; empty if it would.

    Source: checkFlavorForPodSets in kubernetes-sigs/kueue:pkg/scheduler/flavorassigner.
    """
    tolerations = [*(pod.get("tolerations") or []), *(spec.get("tolerations") or [])]
    taints = untolerated(spec.get("nodeTaints") or [], tolerations)
    if taints:
        return f"taint {taints[0]} is not tolerated"
    selector = pod.get("nodeSelector") or {}
    for key, value in (spec.get("nodeLabels") or {}).items():
        if selector.get(key, value) != value:
            return f"its nodes have {key}={value}, nodeSelector has {selector[key]}"
    return ""


def _flavors(group: Object, snapshot: Snapshot) -> _Flavors:
    answers = {each["name"]: snapshot.named(FLAVORS, each["name"]) for each in group["flavors"]}
    specs = {
        name: answer.content.get("spec") or {} for name, answer in answers.items() if answer.found
    }
    cohorts = snapshot.listed(COHORTS)
    return _Flavors(specs=specs, borrows=bool(cohorts.items) or cohorts.unknown)


def _assign(
    job: ReplicatedJob,
    wanted: Amounts,
    room: dict[str, dict[str, Decimal]],
    flavors: _Flavors,
    queue: Object,
) -> Finding:
    """Take the first flavor that fits from `room`, or report the shortage of each."""
    subject = f"quota for {job.name}"
    refusals = []
    for name, free in room.items():
        why = flavor_refusal(flavors.specs.get(name) or {}, job.pod) or _shortage(wanted, free)
        if why:
            refusals.append(f"{name}: {why}")
            continue
        for resource, amount in wanted.items():
            free[resource] -= amount
        amounts = ", ".join(f"{key} {format_amount(key, wanted[key])}" for key in sorted(wanted))
        return ok("quota-ok", subject, f"flavor {name} has enough ({amounts})")
    if queue["spec"].get("cohortName") and flavors.borrows:
        remedy = "a parent cohort may lend the rest"
        return warn("quota-may-borrow", subject, "; ".join(refusals), remedy)
    found = f"no flavor has enough: {'; '.join(refusals)}"
    remedy = "lower nodes or resources, or ask the administrator for quota"
    return fail("quota-too-small", subject, found, remedy)


def _shortage(wanted: Amounts, free: Amounts) -> str:
    return ", ".join(
        f"{name} {format_amount(name, free[name])} of {format_amount(name, amount)}"
        for name, amount in sorted(wanted.items())
        if free[name] < amount
    )


def quota_limit(queue: Object, flavor: str, entry: Object, members: Sequence[Object]) -> Decimal:
    """Return the most a queue can get of a resource: its nominal quota and its cohort's loans.

    ``entry`` is {name, nominalQuota, borrowingLimit?} of the resource.
    """
    own = parse_quantity(entry.get("nominalQuota", 0))
    cohort = queue["spec"].get("cohortName")
    if not cohort:
        return own
    lent = sum(
        (
            _loan(other, flavor, entry["name"])
            for other in members
            if other["spec"].get("cohortName") == cohort
            and other["metadata"]["name"] != queue["metadata"]["name"]
        ),
        Decimal(),
    )
    if entry.get("borrowingLimit") is not None:
        lent = min(lent, parse_quantity(entry["borrowingLimit"]))
    return own + lent


def _loan(queue: Object, flavor: str, resource: str) -> Decimal:
    """Return how much of a resource a queue lends to its cohort."""
    for group in queue["spec"].get("resourceGroups") or []:
        for each in group["flavors"]:
            for entry in each["resources"]:
                if (each["name"], entry["name"]) == (flavor, resource):
                    limit = entry.get("lendingLimit")
                    return parse_quantity(entry["nominalQuota"] if limit is None else limit)
    return Decimal()


def check_resource_quota(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check all ResourceQuotas without a scope; the dry run checks those with one."""
    subject, answer = "ResourceQuota", snapshot.listed(QUOTAS)
    if not answer.found:
        return [unchecked("resource-quota", subject, answer)]
    wanted = resource_quota_usage(release)
    unscoped = [
        item
        for item in answer.items
        if not (item["spec"].get("scopes") or item["spec"].get("scopeSelector"))
    ]
    found = [each for item in unscoped for each in _resource_quota(item, wanted)]
    enough = ok("resource-quota-ok", subject, f"{len(unscoped)} in the namespace, none too small")
    return found or [enough]


def resource_quota_usage(release: Release) -> dict[str, Decimal]:
    """Return the run's usage of a ResourceQuota, by the quota's resource names.

    Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    usage: list[Amounts] = [
        {
            "pods": Decimal(),
            "count/pods": Decimal(),
            "count/jobs.batch": Decimal(len(release.jobset.jobs)),
            "count/jobsets.jobset.x-k8s.io": Decimal(1),
            "count/configmaps": Decimal(len(release.of_kind("ConfigMap"))),
            "persistentvolumeclaims": Decimal(len(release.claims)),
        }
    ]
    for job in release.jobset.jobs:
        total = job.total
        limits = pod_limits(job.pod)
        usage += [
            {f"requests.{name}": amount for name, amount in total.items()},
            {f"limits.{name}": amount * job.count for name, amount in limits.items()},
            {name: total.get(name, Decimal()) for name in ("cpu", "memory")},
            {name: Decimal(job.count) for name in ("pods", "count/pods")},
        ]
    return add_amounts(usage)


def _resource_quota(item: Object, wanted: Amounts) -> list[Finding]:
    hard = parse_amounts(item["spec"].get("hard"))
    used = parse_amounts((item.get("status") or {}).get("used"))
    subject = f"ResourceQuota {item['metadata']['name']}"
    found = []
    for name in sorted(hard.keys() & wanted.keys()):
        need, limit, taken = wanted[name], hard[name], used.get(name, Decimal())
        unit = name.rpartition(".")[2]
        shown = f"{name} {format_amount(unit, limit)}, the run needs {format_amount(unit, need)}"
        if need > limit:
            remedy = "lower nodes or resources, or ask the administrator for a larger one"
            found.append(fail("resource-quota-too-small", subject, shown, remedy))
        elif need > limit - taken:
            text = f"{shown}, {format_amount(unit, taken)} are in use now"
            remedy = "the run's pods start when it is free"
            found.append(warn("resource-quota-in-use", subject, text, remedy))
    return found

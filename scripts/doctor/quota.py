"""Whether a ClusterQueue could ever admit the whole gang: every resource covered, quota enough.

Kueue admits all PodSets together, or none; of each resource group a PodSet takes one flavor for all
of its resources (kubernetes-sigs/kueue:pkg/scheduler/flavorassigner). What others use now is not
looked at: it will be free some day.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from scripts.doctor import quantity
from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, ok, warn
from scripts.doctor.flavors import Flavors, capacity, flavors
from scripts.doctor.kinds import CLUSTER_QUEUES
from scripts.doctor.kueue_config import Config
from scripts.doctor.queue import cluster_queue, covering
from scripts.doctor.release import PodSet, Release
from scripts.doctor.seen import Seen


def check(release: Release, seen: Seen, config: Config) -> list[Finding]:
    """Coverage, then quota; nothing if the ClusterQueue can't be seen, which queue.py says."""
    queue = covering(release, seen)
    if queue is None:
        return []
    covered = {
        name
        for group in queue["spec"].get("resourceGroups") or []
        for name in group["coveredResources"]
    }
    needed = {
        each.name: config.counted(each.total, covered)
        | ({"pods": Decimal(each.count)} if "pods" in covered else {})
        for each in release.pod_sets
    }
    name = cluster_queue(release, seen)
    lost = {resource for each in needed.values() for resource in each} - covered
    found = [_uncovered(resource, name, config) for resource in sorted(lost)]
    asked = {resource for each in release.pod_sets for resource in each.total}
    found += [
        warn(f"quota {resource}", "not checked, because Kueue counts it as something else")
        for resource in sorted(asked & config.transformed)
    ]
    return [*found, *_quotas(release, seen, queue, needed)]


def _uncovered(resource: str, queue: str, config: Config) -> Finding:
    found = f"ClusterQueue {queue} has no quota for it, so the run would wait for ever"
    if not config.known:
        found += " (unless Kueue's configuration, which may not be read, leaves it out)"
    remedy = (
        f"the administrator adds it to coveredResources; or drop it: resources.limits.{resource}"
    )
    return fail(f"quota {resource}", found, f"{remedy}: null")


Needs = Mapping[str, Mapping[str, Decimal]]


def _quotas(release: Release, seen: Seen, queue: Object, needed: Needs) -> list[Finding]:
    """Each group by itself: first fit over the PodSets, as Kueue's assigner goes."""
    members = seen.all(CLUSTER_QUEUES).items
    found: list[Finding] = []
    for group in queue["spec"].get("resourceGroups") or []:
        room = {
            each["name"]: {
                entry["name"]: capacity(queue, each["name"], entry, members)
                for entry in each["resources"]
            }
            for each in group["flavors"]
        }
        for pod_set in release.pod_sets:
            wanted = {
                name: amount
                for name, amount in needed[pod_set.name].items()
                if name in group["coveredResources"]
            }
            found += _assign(pod_set, wanted, room, flavors(group, seen), queue)
    return found


def _assign(
    pod_set: PodSet,
    wanted: Mapping[str, Decimal],
    room: dict[str, dict[str, Decimal]],
    known: Flavors,
    queue: Object,
) -> list[Finding]:
    """Take the first flavor that fits, or say what is short in the roomiest one."""
    subject = f"quota for {pod_set.name}"
    refusals = []
    for name, free in room.items():
        why = known.refuses(name, pod_set) or _short(wanted, free)
        if why:
            refusals.append(f"{name}: {why}")
            continue
        for resource, amount in wanted.items():
            free[resource] -= amount
        amounts = ", ".join(f"{key} {quantity.show(key, wanted[key])}" for key in sorted(wanted))
        return [ok(subject, f"flavor {name} has enough ({amounts})")] if wanted else []
    if not wanted:
        return []
    if queue["spec"].get("cohortName") and known.borrows:
        return [warn(subject, f"{'; '.join(refusals)}", "a parent cohort may lend the rest")]
    remedy = "lower nodes or resources, or ask the administrator for quota"
    return [fail(subject, f"no flavor has enough: {'; '.join(refusals)}", remedy)]


def _short(wanted: Mapping[str, Decimal], free: Mapping[str, Decimal]) -> str:
    return ", ".join(
        f"{name} {quantity.show(name, free[name])} of {quantity.show(name, amount)}"
        for name, amount in sorted(wanted.items())
        if free[name] < amount
    )

"""ResourceFlavors of a ClusterQueue: how much of each, and for which pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from scripts.doctor.answer import Object
from scripts.doctor.kinds import COHORTS, FLAVORS
from scripts.doctor.quantity import amounts
from scripts.doctor.release import PodSet
from scripts.doctor.seen import Seen
from scripts.doctor.selectors import untolerated


@dataclass(frozen=True, kw_only=True)
class Flavors:
    """The flavors of a resource group that may be seen."""

    specs: Mapping[str, Object]
    """By name; one that may not be seen is not here."""
    borrows: bool
    """Whether a cohort with quota of its own or a parent may lend more than its queues have."""

    def refuses(self, name: str, pod_set: PodSet) -> str:
        """Why Kueue would not give a flavor to pods; empty if it would.

        Source: checkFlavorForPodSets in kubernetes-sigs/kueue:pkg/scheduler/flavorassigner.
        """
        spec = self.specs.get(name) or {}
        tolerations = [*(pod_set.spec.get("tolerations") or []), *(spec.get("tolerations") or [])]
        taints = untolerated(spec.get("nodeTaints") or [], tolerations)
        if taints:
            return f"taint {taints[0]} is not tolerated"
        selector = pod_set.spec.get("nodeSelector") or {}
        for key, value in (spec.get("nodeLabels") or {}).items():
            if selector.get(key, value) != value:
                return f"its nodes have {key}={value}, nodeSelector wants {selector[key]}"
        return ""


def flavors(group: Object, seen: Seen) -> Flavors:
    """The flavors of a resource group."""
    answers = {each["name"]: seen.one(FLAVORS, each["name"]) for each in group["flavors"]}
    specs = {
        name: answer.content.get("spec") or {} for name, answer in answers.items() if answer.found
    }
    return Flavors(specs=specs, borrows=bool(seen.all(COHORTS).items))


def capacity(queue: Object, flavor: str, entry: Object, members: Sequence[Object]) -> Decimal:
    """How much of a resource the queue could have at most: nominal, and what its cohort lends.

    Args:
        queue: the ClusterQueue.
        flavor: the flavor's name.
        entry: {name, nominalQuota, borrowingLimit?} of the resource.
        members: all ClusterQueues.
    """
    own = amounts({"": entry.get("nominalQuota", 0)})[""]
    cohort = queue["spec"].get("cohortName")
    if not cohort:
        return own
    lent = sum(
        (
            _lends(other, flavor, entry["name"])
            for other in members
            if other["spec"].get("cohortName") == cohort
            and other["metadata"]["name"] != queue["metadata"]["name"]
        ),
        Decimal(),
    )
    if entry.get("borrowingLimit") is not None:
        lent = min(lent, amounts({"": entry["borrowingLimit"]})[""])
    return own + lent


def _lends(queue: Object, flavor: str, resource: str) -> Decimal:
    for group in queue["spec"].get("resourceGroups") or []:
        for each in group["flavors"]:
            for entry in each["resources"]:
                if (each["name"], entry["name"]) == (flavor, resource):
                    limit = entry.get("lendingLimit")
                    return amounts({"": entry["nominalQuota"] if limit is None else limit})[""]
    return Decimal()

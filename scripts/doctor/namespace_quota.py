"""Whether the namespace's ResourceQuotas have room for the whole gang."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from scripts.doctor import quantity
from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, ok, unknown, warn
from scripts.doctor.kinds import QUOTAS
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen


def check(release: Release, seen: Seen) -> list[Finding]:
    """All quotas without a scope; one that is for some pods only is left to the dry run."""
    answer = seen.all(QUOTAS)
    if not answer.found:
        return [unknown("ResourceQuota", answer)]
    wanted = needs(release)
    open_to_all = [
        item
        for item in answer.items
        if not (item["spec"].get("scopes") or item["spec"].get("scopeSelector"))
    ]
    found = [each for item in open_to_all for each in _quota(item, wanted)]
    return found or [ok("ResourceQuota", f"{len(open_to_all)} in the namespace, none too small")]


def needs(release: Release) -> dict[str, Decimal]:
    """What the run counts against a ResourceQuota, by the quota's names.

    Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    found: dict[str, Decimal] = {
        "pods": Decimal(),
        "count/pods": Decimal(),
        "count/jobs.batch": Decimal(len(release.pod_sets)),
        "count/jobsets.jobset.x-k8s.io": Decimal(1),
        "count/configmaps": Decimal(len(release.own("ConfigMap"))),
        "persistentvolumeclaims": Decimal(len(release.claims)),
    }
    for each in release.pod_sets:
        limits = {name: amount * each.count for name, amount in quantity.limits(each.spec).items()}
        for prefix, amounts in (("requests.", each.total), ("limits.", limits)):
            _add(found, ((prefix + name, amount) for name, amount in amounts.items()))
        _add(found, ((name, each.total.get(name, Decimal())) for name in ("cpu", "memory")))
        _add(found, ((name, Decimal(each.count)) for name in ("pods", "count/pods")))
    return found


def _add(total: dict[str, Decimal], amounts: Iterable[tuple[str, Decimal]]) -> None:
    for name, amount in amounts:
        total[name] = total.get(name, Decimal()) + amount


def _quota(item: Object, wanted: dict[str, Decimal]) -> list[Finding]:
    hard = quantity.amounts(item["spec"].get("hard"))
    used = quantity.amounts((item.get("status") or {}).get("used"))
    found = []
    for name in sorted(hard.keys() & wanted.keys()):
        need, limit, taken = wanted[name], hard[name], used.get(name, Decimal())
        subject = f"ResourceQuota {item['metadata']['name']}"
        unit = name.rpartition(".")[2]
        shown = f"{name} {quantity.show(unit, limit)}, the run needs {quantity.show(unit, need)}"
        if need > limit:
            remedy = "lower nodes or resources, or ask the administrator for a bigger one"
            found.append(fail(subject, shown, remedy))
        elif need > limit - taken:
            text = f"{shown}, {quantity.show(unit, taken)} are in use now"
            found.append(warn(subject, text, "the run's pods come when it is free"))
    return found

"""Kubernetes quantities, and what a pod asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from kubernetes.utils import quantity as official

from scripts.doctor.answer import Object

Amounts = Mapping[str, Decimal]
UNITS = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def amounts(written: Mapping[str, object] | None) -> dict[str, Decimal]:
    """Numbers of a resource list; bytes, cores or devices."""
    return {name: _number(amount) for name, amount in (written or {}).items()}


def _number(written: object) -> Decimal:
    parse: Callable[[object], Decimal] = official.parse_quantity
    return parse(written)


def show(resource: str, amount: Decimal) -> str:
    """An amount as a person writes it.

    >>> show("memory", Decimal(480 * 2**30)), show("cpu", Decimal("0.5")), show("x/gpu", Decimal(8))
    ('480Gi', '500m', '8')
    """
    if amount != int(amount):
        return f"{amount * 1000:.0f}m"
    whole = int(amount)
    if whole >= 2**20 and resource not in ("cpu", "pods"):
        for unit, bits in UNITS:
            if whole >= 2**bits:
                return (
                    f"{whole / 2**bits:.10g}{unit}"
                    if whole % 2 ** (bits - 10) == 0
                    else (f"{whole / 2**bits:.1f}{unit}")
                )
    return str(whole)


def asked(pod: Object) -> dict[str, Decimal]:
    """What a pod takes up by its spec: the containers' sum, or an init container if that is more.

    A limit without a request is the request, as the API server fills it in. Source:
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    total = _sum(_requests(container) for container in pod.get("containers") or [])
    for container in pod.get("initContainers") or []:
        wanted = _requests(container)
        total = {
            name: max(total.get(name, Decimal()), wanted.get(name, Decimal()))
            for name in {*total, *wanted}
        }
    return _sum([total, amounts(pod.get("overhead"))])


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def limits(pod: Object) -> dict[str, Decimal]:
    """The sum of the containers' limits."""
    return _sum(
        amounts((container.get("resources") or {}).get("limits"))
        for container in pod.get("containers") or []
    )


def _sum(lists: Iterable[Amounts]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for each in lists:
        for name, amount in each.items():
            total[name] = total.get(name, Decimal()) + amount
    return total

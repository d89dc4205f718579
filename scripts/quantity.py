"""Kubernetes quantities, and the resources that a pod requests."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from scripts import official_client
from scripts.problem import Problem

Object = Mapping[str, Any]
UNITS = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class of DRA: a request of its devices, which no node counts."""
_WORD = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_RESOURCE = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*[KMG]i|"
    rf"(?!requests[.]|(?!{DEVICE_CLASS})([a-z0-9.-]*[.])?kubernetes[.]io/|[^/]{{245}})"
    rf"{_WORD}([.]{_WORD})*/[A-Za-z0-9]([-A-Za-z0-9._]{{0,61}}[A-Za-z0-9])?"
)
"""The name of a quota, ``requests.NAME``, must be valid too: 253 characters before the slash."""


def is_resource(name: str) -> bool:
    """Return whether a container can request a resource of this name.

    >>> names = ("cpu", "rdma/hca", f"{DEVICE_CLASS}gpu.nvidia.com", "gpu", "kubernetes.io/x")
    >>> [is_resource(name) for name in names]
    [True, True, True, False, False]
    """
    return _RESOURCE.fullmatch(name) is not None


def parse_quantity(written: object) -> Decimal:
    """Return a quantity as a number: bytes, cores or devices.

    >>> parse_quantity("480Gi") / 2**30, parse_quantity("500m"), parse_quantity(8)
    (Decimal('480'), Decimal('0.500'), Decimal('8'))

    Raises:
        Problem: it is not a Kubernetes quantity.
    """
    # Here, as hosts that only run `megatron-dpo local` lack the client.
    parse: Callable[[object], Decimal] = official_client.part("utils.quantity").parse_quantity
    try:
        number = parse(written)
    except ValueError:
        number = Decimal("nan")
    # Decimal also accepts "nan" and blanks, which Kubernetes does not.
    if not number.is_finite() or any(map(str.isspace, str(written))):
        raise Problem(f"{written!r} is not a Kubernetes quantity; use e.g. 480Gi, 500m or 8")
    return number


def parse_amounts(written: Mapping[str, object] | None) -> dict[str, Decimal]:
    """Return a resource list (name to quantity) as numbers.

    Raises:
        Problem: one of them is not a Kubernetes quantity.
    """
    return {name: parse_quantity(amount) for name, amount in (written or {}).items()}


def format_amount(resource: str, amount: Decimal) -> str:
    """Return an amount in the unit that a manifest would use for the resource.

    >>> format_amount("memory", Decimal(480 * 2**30)), format_amount("cpu", Decimal("0.5"))
    ('480Gi', '500m')
    >>> format_amount("x/gpu", Decimal(8))
    '8'
    """
    if amount != int(amount):
        return f"{amount * 1000:.0f}m"
    whole = int(amount)
    if whole < 2**20 or resource in ("cpu", "pods"):
        return str(whole)
    unit, bits = next((unit, bits) for unit, bits in UNITS if whole >= 2**bits)
    is_exact = whole % 2 ** (bits - 10) == 0
    return f"{whole / 2**bits:.10g}{unit}" if is_exact else f"{whole / 2**bits:.1f}{unit}"


def pod_requests(pod: Object) -> dict[str, Decimal]:
    """Return the requests of a pod spec: the containers' sum, or an init container's if larger.

    A limit without a request is the request, as the API server defaults it. Source:
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    total = add_amounts(_requests(container) for container in pod.get("containers") or [])
    for container in pod.get("initContainers") or []:
        wanted = _requests(container)
        total = {
            name: max(total.get(name, Decimal()), wanted.get(name, Decimal()))
            for name in {*total, *wanted}
        }
    return add_amounts([total, parse_amounts(pod.get("overhead"))])


def pod_limits(pod: Object) -> dict[str, Decimal]:
    """Return the sum of the containers' limits."""
    return add_amounts(
        parse_amounts((container.get("resources") or {}).get("limits"))
        for container in pod.get("containers") or []
    )


def add_amounts(lists: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    """Return the sum of resource lists, by resource."""
    total: dict[str, Decimal] = {}
    for each in lists:
        for name, amount in each.items():
            total[name] = total.get(name, Decimal()) + amount
    return total


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    return parse_amounts(resources.get("limits")) | parse_amounts(resources.get("requests"))

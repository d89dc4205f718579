"""Position of a waiting run in its queue."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from scripts.doctor.api import Object
from scripts.observe.cluster import is_true
from scripts.observe.view import View

T = TypeVar("T")


class Kept(Generic[T]):
    """What was computed from the last list: `list` asks the same of it for each of its runs."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._items: list[Object] = []
        self._found: dict[Hashable, T] = {}

    def of(self, items: list[Object], key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this list, the same object, and this key."""
        if items is not self._items:
            self._items, self._found = items, {}
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]


_LINES: Kept[Mapping[str, int]] = Kept()


@dataclass(frozen=True, kw_only=True)
class Position:
    """Position of a run among the waiting ones, from 1."""

    number: int
    of: int | None
    """Number of waiting runs; None if it is not known."""
    where: str

    def __str__(self) -> str:
        """Return it for a sentence.

        >>> str(Position(number=2, of=7, where="LocalQueue gpu"))
        'number 2 of 7 waiting in LocalQueue gpu'
        """
        of = f" of {self.of}" if self.of else ""
        return f"number {self.number}{of} waiting in {self.where}"


def position(view: View) -> Position | None:
    """Return the position in the queue; None if it is not known.

    Kueue's visibility API counts over the ClusterQueue, where it is served and allowed. Otherwise
    the namespace's Workloads of the same LocalQueue are counted, which are ordered by priority,
    then by age.
    """
    pending = view.snapshot.answer("list pendingworkloads")
    name = str((view.workload.get("metadata") or {}).get("name") or "")
    for each in pending.items if pending.found else ():
        if each["metadata"]["name"] == name:
            place = int(each.get("positionInClusterQueue") or 0) + 1
            return Position(number=place, of=None, where="the ClusterQueue")
    items, space, queue = view.snapshot.workloads, view.namespace, view.queue
    numbers = _LINES.of(items, (space, queue), lambda: _line(items, space, queue))
    if name not in numbers:
        return None
    return Position(number=numbers[name], of=len(numbers), where=f"LocalQueue {queue}")


def _line(items: list[Object], space: str, queue: str) -> dict[str, int]:
    """Return the names of the Workloads that wait in a LocalQueue, with their numbers."""
    own = (each for each in items if each["metadata"].get("namespace", space) == space)
    waiting = sorted((each for each in own if _waits_in(each, queue)), key=_order)
    return {each["metadata"]["name"]: number for number, each in enumerate(waiting, 1)}


def _waits_in(workload: Object, queue: str) -> bool:
    spec: Object = workload.get("spec") or {}
    return (
        spec.get("queueName") == queue
        and spec.get("active") is not False
        and not is_true(workload, "QuotaReserved")
        and not is_true(workload, "Finished")
    )


def _order(workload: Object) -> tuple[int, str]:
    spec: Object = workload.get("spec") or {}
    return -int(spec.get("priority") or 0), str(workload["metadata"].get("creationTimestamp") or "")

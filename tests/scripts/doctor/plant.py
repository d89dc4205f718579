"""Ways to change one thing in a cluster of plain objects."""

from collections.abc import Callable
from typing import Any

from tests.scripts.doctor.healthy import Object, objects

There = list[Object]


def pick(there: There, kind: str) -> Object:
    return next(item for item in there if item["kind"] == kind)


def hosted(*nodes: Object) -> There:
    return [*(item for item in objects() if item["kind"] != "Node"), *nodes]


def drop(kind: str) -> Callable[[There], None]:
    def plant(there: There) -> None:
        there.remove(pick(there, kind))

    return plant


def change(kind: str, path: str, value: Any) -> Callable[[There], None]:
    def plant(there: There) -> None:
        *parents, last = path.split("/")
        content: Any = pick(there, kind)
        for word in parents:
            content = content[int(word)] if word.isdigit() else content.setdefault(word, {})
        content[last] = value

    return plant


def add(*items: Object) -> Callable[[There], None]:
    return lambda there: there.extend(items)


def status(kind: str, reason: str, message: str) -> Callable[[There], None]:
    condition = {"type": "Active", "status": "False", "reason": reason, "message": message}
    return change(kind, "status", {"conditions": [condition]})

"""Paths of values, as messages print them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def path(parts: Iterable[str | int], level: str = "") -> str:
    r"""Return a path below a level; a key that is not a plain word is quoted.

    >>> path([0, "b", "c d"], "a")
    'a[0].b["c d"]'
    """
    text = f".{level}"
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_./-]{1,200}", part):
            text += f".{part}"
        else:
            text += f"[{quoted(part[:60])}]"
    return text.lstrip(".")


def quoted(text: str) -> str:
    """Return a text in quotes, with what is not ASCII escaped."""
    return json.dumps(text)


def walk(value: object, level: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield path, last key and value of everything below a value, itself first.

    >>> [each[:2] for each in walk({"a": [{"b": 1}]})]
    [('', ''), ('a', 'a'), ('a[0]', 'a'), ('a[0].b', 'b')]
    """
    yield level, key, value
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from walk(each, path([name], level), name)
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from walk(each, f"{level}[{position}]", key)

"""The keys and flags that a remedy names, and their paths."""

import re
from functools import cache

from launchers.rules.table import SWIFT
from scripts.values import schema
from scripts.values.flags import table_of

PRONOUNS = ("it", "that", "them", "one", "both", "a", "more", "e.g.", "base64")
"""Words in the place of a name."""


@cache
def maps() -> dict[str, list[str]]:
    """Return the path of each map of the chart with its keys."""
    return schema.maps(schema.schema())


@cache
def flags() -> frozenset[str]:
    """Return the flags of all backends whose names cannot be values: they have more than a word."""
    backends = table_of(SWIFT)["backends"].values()
    names = (name for each in backends for some in each["flags"].values() for name in some)
    return frozenset(name for name in names if "_" in name)


def absolute(name: str, path: str, cause: str) -> str:
    """Return the path of a name in a remedy: a flag, a key of the chart, or one nearby."""
    first = re.split(r"[.\[]", name)[0]
    if name == path or first in maps()[""]:
        return name
    if named := re.search(rf"\b([\w.]+\.{re.escape(name)})\b", cause):
        return named[1]
    if path.startswith("recipe.args") or (
        path.startswith("recipe.") and "_" in name and "." not in name
    ):
        return f"recipe.args.{name}"
    if name.startswith(("runAs", "allowPriv")) and "ecurityContext" in path:
        return f"{path.partition('ecurityContext')[0]}ecurityContext.{name}"
    below = maps().get(path, ())
    if first in below or (not below and "." not in path and "[" not in path):
        return f"{path}.{name}"
    return f"{path.rpartition('.')[0]}.{name}".lstrip(".")


def is_name(word: str) -> bool:
    """Return whether a word of a remedy names a key or flag, and no value."""
    return word in PRONOUNS or word in maps()[""] or word in flags() or is_key(word)


def is_key(path: str) -> bool:
    """Return whether a path is a key of the chart."""
    level, _, key = path.rpartition(".")
    return key in maps().get(level, ())

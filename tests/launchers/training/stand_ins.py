"""Modules that stand in for packages which do not import without a GPU."""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def install(members: Mapping[str, Mapping[str, Any]]) -> None:
    """Let these modules be imported; packages that are imported already stay."""
    for name, module in modules(members).items():
        sys.modules.setdefault(name, module)


def modules(members: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    """Return modules with these members, and the packages above them, by their names."""
    made: dict[str, ModuleType] = {}
    for name, content in members.items():
        parts = name.split(".")
        for path in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
            made.setdefault(path, ModuleType(path)).__path__ = []
        vars(made[name]).update(content)
    return made

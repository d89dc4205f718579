"""What a remedy changes in the values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import yaml


class Act(StrEnum):
    """Kind of a change."""

    SET = "set"
    """``value`` replaces the value, or is added; a map is merged into a map."""
    REPLACE = "replace"
    """The same without merging: the answer to a question."""
    REMOVE = "remove"
    MOVE = "move"
    """The value goes to the path ``value``."""
    QUOTE = "quote"
    """The value becomes the text that the file has."""
    ASK = "ask"
    """The user gives the value; ``value`` says what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of one value."""

    act: Act
    path: str
    value: Any = None

    def document(self) -> dict[str, Any]:
        """Return the change as JSON data, in which ``act`` says what ``value`` means."""
        has_value = self.act not in (Act.REMOVE, Act.QUOTE)
        return {"act": self.act.value, "path": self.path} | (
            {"value": self.value} if has_value else {}
        )


Choice = tuple[Change, ...]
"""Changes that belong together."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """The changes that a refusal's words propose."""

    id: str
    path: str
    line: str
    choices: tuple[Choice, ...] = ()
    """Alternatives; none if no change of the values is a remedy."""
    is_sure: bool = False
    """True if the words name one change and its value: it is applied without a choice."""

    @property
    def key(self) -> tuple[str, str]:
        """Return id and path, which name a refusal of one file."""
        return self.id, self.path

    def document(self) -> dict[str, Any]:
        """Return the remedy as JSON data."""
        choices = [[each.document() for each in choice] for choice in self.choices]
        return {"id": self.id, "path": self.path, "sure": self.is_sure, "choices": choices}


MEMORY = ("plan-gpu-memory", "plan-host-memory")
"""Refusals that another layout may remove."""


def with_layouts(one: Remedy, layouts: Sequence[Mapping[str, str | None]]) -> Remedy:
    """Return the remedy of a plan that needs too much memory with layouts that fit, first.

    Args:
        one: a remedy.
        layouts: changes of ``recipe.args``; None takes the default.
    """
    if one.id not in MEMORY:
        return one
    found = [
        tuple(
            Change(
                act=Act.REPLACE, path=f"recipe.args.{name}", value=yaml.safe_load(text or "null")
            )
            for name, text in layout.items()
        )
        for layout in layouts
    ]
    return replace(one, choices=(*found, *one.choices))


def changed(
    values: Any,
    path: Sequence[str | int],
    value: Any,
    *,
    removes: bool = False,
    merges: bool = True,
) -> Any:
    """Return values with one changed; maps on the way are made, and maps merged unless not asked.

    Raises:
        KeyError: there is nothing to remove, or no map to add it to.
    """
    if not path:
        both = isinstance(values, Mapping) and isinstance(value, Mapping)
        if both and value and merges:
            for key, each in value.items():
                values = changed(values, (key,), each)
            return values
        return value
    first, *rest = path
    if isinstance(first, int):
        if not isinstance(values, list) or first >= len(values):
            raise KeyError(first)
        made: Any = list(values)
        if removes and not rest:
            del made[first]
        else:
            made[first] = changed(made[first], rest, value, removes=removes, merges=merges)
        return made
    if values is not None and not isinstance(values, Mapping):
        raise KeyError(first)
    made = dict(values or {})
    if removes and not rest:
        del made[first]
    elif removes:
        made[first] = changed(made[first], rest, value, removes=True)
    else:
        made[first] = changed(made.get(first), rest, value, merges=merges)
    return made

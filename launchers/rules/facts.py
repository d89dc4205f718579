"""What rules judge: the text of each flag, given or by default, and the gang's size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launchers.config.recipe import Value
from launchers.flags.core_overrides import read
from launchers.flags.values import YES, is_number, is_size, spell

TASK = "recipe.task"
"""Stands among the flags, so that a rule may ask for it."""
REFERENCE = "recipe.reference"
"""The same."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One recipe's flags, and the processes that share the work."""

    texts: Mapping[str, str]
    """Flag to its text; one that is neither given nor has a default is missing."""
    nodes: int
    gpus: int
    overridden: frozenset[str] = field(default_factory=frozenset)
    """Flags that another flag replaces inside megatron-core: rules that read one don't judge."""

    @property
    def world(self) -> int:
        """Return the number of training processes."""
        return self.nodes * self.gpus

    def text(self, flag: str) -> str:
        """Return a flag's text; empty when it has none."""
        return self.texts.get(flag, "")

    def words(self, flag: str) -> list[str]:
        """Return a flag's words."""
        return self.text(flag).split()

    def is_on(self, flag: str) -> bool:
        """Tell whether a switch is on."""
        return self.text(flag).lower() in YES

    def size(self, flag: str) -> int | None:
        """Return a flag's size, a whole number from 1 to 999999."""
        return int(self.text(flag)) if is_size(self.text(flag)) else None

    def number(self, flag: str) -> float | None:
        """Return a flag's number."""
        return float(self.text(flag)) if is_number(self.text(flag)) else None


def of(
    args: Mapping[str, Value],
    defaults: Mapping[str, str],
    *,
    nodes: int,
    gpus: int,
    task: str = "rlhf",
    reference: str = "online",
    overrides: str = "",
) -> Facts:
    """Collect the facts of a recipe; what is given as empty counts as missing.

    Args:
        args: the recipe's flags.
        defaults: of the flags that have one.
        nodes: pods of the gang.
        gpus: processes of each pod.
        task: of the recipe.
        reference: of the recipe.
        overrides: the flag whose map goes straight into megatron-core's configuration.
    """
    given = {name: text for name, value in args.items() if (text := spell(value))}
    return Facts(
        texts={**defaults, TASK: task, REFERENCE: reference, **given},
        nodes=nodes,
        gpus=gpus,
        overridden=frozenset(read(args.get(overrides, "")) or ()),
    )

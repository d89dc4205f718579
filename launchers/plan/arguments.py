"""Typed values of a recipe's flags, with ms-swift's defaults where a flag is not given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from launchers.config.recipe import NO, Value
from launchers.exits import Exit, LaunchError
from launchers.plan.layout import Layout

YES = ("yes", "true", "t", "y", "1", "on")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Flags of one recipe."""

    args: Mapping[str, Value]

    def word(self, name: str, default: str) -> str:
        """Return a flag of one word."""
        value = self.args.get(name, default)
        if isinstance(value, list):
            value = " ".join(value)
        return value if isinstance(value, str) else default

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a flag of several words."""
        value = self.args.get(name)
        if isinstance(value, list):
            return tuple(value)
        return tuple(value.split()) if isinstance(value, str) else default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """Return one of the words that ms-swift takes."""
        value = self.word(name, default)
        if value in choices:
            return value
        raise _refused(name, value, " or ".join(choices))

    def size(self, name: str, default: int) -> int:
        """Return a whole number from 1."""
        value = self.word(name, str(default))
        if value.isascii() and value.isdecimal() and (int(value) > 0 or name not in self.args):
            return int(value)
        raise _refused(name, value, "a whole number from 1")

    def optional(self, name: str) -> int | None:
        """Return a whole number from 1, or None where the flag is not given."""
        return self.size(name, 1) if name in self.args else None

    def number(self, name: str, default: float) -> float:
        """Return a finite number from 0."""
        value = self.word(name, str(default))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return number
        raise _refused(name, value, "a number from 0")

    def flag(self, name: str, default: bool) -> bool:
        """Return yes or no, as ms-swift's parser takes them."""
        value = self.word(name, str(default)).lower()
        if value in YES or value in NO:
            return value in YES
        raise _refused(name, value, "true or false")

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """Return the parallel sizes."""
        vpp = self.optional("virtual_pipeline_model_parallel_size")
        return Layout(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            tp=self.size("tensor_model_parallel_size", 1),
            pp=self.size("pipeline_model_parallel_size", 1),
            cp=self.size("context_parallel_size", 1),
            ep=self.size("expert_model_parallel_size", 1),
            etp=self.size("expert_tensor_parallel_size", 1),
            vpp=None if vpp == 1 else vpp,
            first_layers=self.optional("decoder_first_pipeline_num_layers"),
            last_layers=self.optional("decoder_last_pipeline_num_layers"),
            embedding_is_layer=self.flag("account_for_embedding_in_pipeline_split", False),
            loss_is_layer=self.flag("account_for_loss_in_pipeline_split", False),
        )


def _refused(name: str, value: str, allowed: str) -> LaunchError:
    return LaunchError(Exit.CONFIG, f'recipe.args.{name}: "{value}"', f"write {allowed}")

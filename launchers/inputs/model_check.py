"""What the model's sizes rule out or make unwise, judged as soon as they are known."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError
from launchers.inputs import preview
from launchers.plan.model_config import Shape
from launchers.rules import table


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of a recipe and its model."""

    is_whole: bool
    """Whether the run was judged; if not, the model's sizes are not known yet."""
    shape: Shape | None
    """The model's sizes; None where they are not known or not looked at."""


def check_model(settings: Settings, recipe: Recipe, *, may_ask: bool) -> Judged:
    """Refuse what the model's sizes rule out; log what is surely not wanted.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe, which has passed the rules that need no model.
        may_ask: whether a hub may be asked: before the download; afterwards the model is here.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    shape = preview.shape(settings, recipe, may_ask=may_ask)
    if shape is None and may_ask and recipe.backend == "megatron":
        return Judged(is_whole=False, shape=None)
    known = broken(settings, recipe, None)
    refuse([message for message in broken(settings, recipe, shape) if message not in known])
    for what in unwise(settings, recipe, shape):
        logs.warning("recipe", what=what)
    return Judged(is_whole=True, shape=shape)


def refuse(messages: list[str]) -> None:
    """Refuse the run if anything is wrong.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    if messages:
        count = "" if len(messages) == 1 else f" ({len(messages)} mistakes)"
        raise LaunchError(
            Exit.CONFIG, " | ".join(messages), f"mend the values file{count} and install again"
        )


def broken(settings: Settings, recipe: Recipe, shape: Shape | None) -> list[str]:
    """Return a message for each rule that the recipe breaks."""
    return table.check(recipe.args, **_gang(settings, recipe, shape))


def unwise(settings: Settings, recipe: Recipe, shape: Shape | None) -> list[str]:
    """Return a message for each thing that works, but is surely not wanted."""
    return table.warn(recipe.args, **_gang(settings, recipe, shape))


def core_version() -> str:
    """Return the version of the megatron-core that is installed here, else the pinned one."""
    try:
        return metadata.version("megatron-core")
    except metadata.PackageNotFoundError:
        return table.CORE


def _gang(settings: Settings, recipe: Recipe, shape: Shape | None) -> dict[str, Any]:
    return {
        "shape": shape,
        "nodes": settings.place.nodes,
        "gpus_per_node": settings.nproc_per_node,
        "backend": recipe.backend,
        "task": recipe.task,
        "reference": recipe.reference,
        "core": core_version(),
    }

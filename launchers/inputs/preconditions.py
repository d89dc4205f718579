"""The checks of a recipe before anything is trained: flags, sources, sizes, the model's sizes.

``check`` needs no model and runs first. ``check_model`` judges the model's sizes as soon as they
are known: usually before the download, otherwise after it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from launchers import logs
from launchers.config.recipe import NO, Recipe, Value
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError
from launchers.flags import flag_types as kinds
from launchers.flags import installed
from launchers.flags.command_line import Inputs, flatten, program, training_flags
from launchers.flags.flag_types import Kind
from launchers.flags.renames import OWNED, RENAMED, secret_advice
from launchers.inputs import model_preview
from launchers.plan.model_config import Shape
from launchers.rules import table
from launchers.system.ms_swift import swift_folder


@dataclass(frozen=True, kw_only=True)
class Known:
    """The flags of the installed ms-swift; empty when they are not known."""

    names: frozenset[str] = frozenset()
    kinds: Mapping[str, Kind] = field(default_factory=dict)


def check(settings: Settings, recipe: Recipe, inputs: Inputs, *, is_gang: bool = True) -> None:
    """Refuse a recipe that cannot work, as far as that is known without the model.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe.
        inputs: the paths of its inputs.
        is_gang: whether this pod is a rank of the gang; the pod of a single stage does not know
            the gang's sizes.

    Raises:
        LaunchError: CONFIG with all messages, each naming its values key.
    """
    messages = owned(recipe) + secret(recipe) + unsaved(recipe) + table.empty(recipe.args)
    try:
        first_attempt_flags(settings, recipe, inputs)
    except LaunchError as error:
        messages.append(f"{error.cause}; {error.remedy}")
    known = known_flags(recipe)
    if known.names:
        messages += installed.check_flags(recipe.args, known.names, RENAMED[recipe.backend])
        judged = kinds.check(recipe.args, known.kinds)
        judged += broken_rules(settings, recipe, None) if is_gang else []
        named = {_flag(message) for message in messages}  # one message a flag is enough
        messages += [message for message in judged if _flag(message) not in named]
    refuse(messages)


def _flag(message: str) -> str:
    """Return the values key that a message begins with."""
    return re.split("[:=]", message, maxsplit=1)[0]


def owned(recipe: Recipe) -> list[str]:
    """Return a message for each flag that only the launcher may set."""
    return [
        f"recipe.args.{name}: the launcher sets this flag; remove it"
        for name in recipe.args
        if name in OWNED[recipe.backend]
    ]


def secret(recipe: Recipe) -> list[str]:
    """Return a message for each flag that holds a secret; its value is not repeated."""
    seen = "a secret, and whoever sees the run sees its recipe; remove it, and"
    advice = {name: secret_advice(name) for name in recipe.args}
    return [f"recipe.args.{name}: {seen} {what}" for name, what in advice.items() if what]


def unsaved(recipe: Recipe) -> list[str]:
    """Return a message for each flag that would leave nothing to export."""
    messages = []
    if _word(recipe, "save_strategy") in NO:
        given = f"recipe.args.save_strategy={recipe.args['save_strategy']!r}"
        messages.append(f"{given}: nothing would be saved; write steps or epoch")
    if recipe.backend == "megatron" and _word(recipe, "save_safetensors") in NO:
        given = f"recipe.args.save_safetensors={recipe.args['save_safetensors']!r}"
        messages.append(f"{given}: the export is made of safetensors; remove it")
    return messages


def _word(recipe: Recipe, name: str) -> str:
    """Return a flag's value in lower case; a list of one word reaches ms-swift as that word."""
    value = recipe.args.get(name, "")
    return " ".join(value).lower() if isinstance(value, list) else str(value).lower()


def known_flags(recipe: Recipe) -> Known:
    """Return the flags of the installed ms-swift.

    The pod of a single stage may run an image without ms-swift, or with a release of another
    structure: its flags are not known, and none is refused here. ms-swift itself refuses a flag
    that it does not have.
    """
    packages = installed.installed()
    if "swift" not in packages:
        logs.warning("flags not checked", why="ms-swift is not installed here")
        return Known()
    entry, bounded = installed.ENTRIES[recipe.backend][recipe.task], table.ranged(recipe.backend)
    try:
        classes = installed.read(packages)
        names, found = installed.flags(classes, entry), installed.kinds(classes, entry)
    except LookupError as error:
        logs.warning("flags not checked", why=error)
        return Known()
    left = {name: kind for name, kind in found.items() if name not in bounded}
    return Known(names=frozenset(names), kinds=left)


def first_attempt_flags(settings: Settings, recipe: Recipe, inputs: Inputs) -> dict[str, Value]:
    """Return the training flags of the first attempt.

    Raises:
        LaunchError: CONFIG for a flag that the launcher cannot put on a command line.
    """
    return training_flags(
        recipe,
        inputs,
        output_dir=settings.work.checkpoints,
        resume=None,
        on_cpu=settings.gpus_per_node == 0,
    )


def log_command(settings: Settings, recipe: Recipe, inputs: Inputs) -> None:
    """Log the training command of the first attempt."""
    argv = first_attempt_flags(settings, recipe, inputs)
    words = [str(program(recipe, swift_folder())), *flatten(argv)]
    logs.info("check passed", world_size=settings.world_size, argv=shlex.join(words))


@dataclass(frozen=True, kw_only=True)
class ModelVerdict:
    """The result of ``check_model``."""

    is_final: bool
    """False when the model's sizes are not known yet: check again after the download."""
    shape: Shape | None
    """The model's sizes; None when they are not known or not needed."""


def check_model(
    settings: Settings, recipe: Recipe, inputs: Inputs, *, may_ask: bool
) -> ModelVerdict:
    """Refuse what the model's sizes rule out; log warnings about values that are likely unintended.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe, which has passed ``check``.
        inputs: the paths of its inputs.
        may_ask: whether the model's hub may be asked: only before the download.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    shape = model_preview.shape(recipe, inputs, may_ask=may_ask)
    if shape is None and may_ask and recipe.backend == "megatron":
        return ModelVerdict(is_final=False, shape=None)
    known = broken_rules(settings, recipe, None)
    refuse([message for message in broken_rules(settings, recipe, shape) if message not in known])
    for what in warnings(settings, recipe, shape):
        logs.warning("recipe", what=what)
    return ModelVerdict(is_final=True, shape=shape)


def refuse(messages: list[str]) -> None:
    """Refuse the run if there is any message.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    if messages:
        count = "" if len(messages) == 1 else f" ({len(messages)} mistakes)"
        raise LaunchError(
            Exit.CONFIG, " | ".join(messages), f"mend the values file{count} and install again"
        )


def broken_rules(settings: Settings, recipe: Recipe, shape: Shape | None) -> list[str]:
    """Return a message for each rule that the recipe breaks."""
    return table.check(recipe.args, **_run_facts(settings, recipe, shape))


def warnings(settings: Settings, recipe: Recipe, shape: Shape | None) -> list[str]:
    """Return a message for each value that is valid but almost certainly unintended."""
    return table.warn(recipe.args, **_run_facts(settings, recipe, shape))


def core_version() -> str:
    """Return the version of the installed megatron-core; without one the pinned version."""
    try:
        return metadata.version("megatron-core")
    except metadata.PackageNotFoundError:
        return table.CORE


def _run_facts(settings: Settings, recipe: Recipe, shape: Shape | None) -> dict[str, Any]:
    """Return the facts about a run that the rules judge."""
    return {
        "shape": shape,
        "nodes": settings.place.nodes,
        "gpus_per_node": settings.nproc_per_node,
        "backend": recipe.backend,
        "task": recipe.task,
        "reference": recipe.reference,
        "core": core_version(),
    }

"""What can be refused before anything is downloaded: flags, sizes, sources."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from launchers import logs
from launchers.config.recipe import NO, Recipe, Value
from launchers.config.settings import Settings
from launchers.exits import LaunchError
from launchers.flags import flag_types as kinds
from launchers.flags import installed
from launchers.flags.command_line import Inputs, flatten, program, training_flags
from launchers.flags.flag_types import Kind
from launchers.flags.renames import OWNED, RENAMED, secret_advice
from launchers.inputs.model_check import broken, refuse
from launchers.inputs.paths import inputs_of
from launchers.rules import table
from launchers.system.ms_swift import swift_folder


@dataclass(frozen=True, kw_only=True)
class Known:
    """The flags of the ms-swift that is installed here; empty where nothing is known."""

    names: frozenset[str] = frozenset()
    kinds: Mapping[str, Kind] = field(default_factory=dict)


def check(settings: Settings, recipe: Recipe, *, is_gang: bool = True) -> None:
    """Refuse what can't work.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe.
        is_gang: whether this pod is one of the gang; a stage's own pod does not know its sizes.

    Raises:
        LaunchError: CONFIG with all messages, each naming its values key.
    """
    messages = owned(recipe) + secret(recipe) + unsaved(recipe) + table.empty(recipe.args)
    inputs = inputs_of(settings, recipe, settings.work)
    try:
        merged(settings, recipe, inputs)
    except LaunchError as error:
        messages.append(f"{error.cause}; {error.remedy}")
    known = known_flags(recipe)
    if known.names:
        messages += installed.check_flags(recipe.args, known.names, RENAMED[recipe.backend])
        judged = kinds.check(recipe.args, known.kinds)
        judged += broken(settings, recipe, None) if is_gang else []
        named = {_flag(message) for message in messages}  # of which enough was said
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
    """Return the flags of the ms-swift that is installed here.

    A stage's pod may run an image without ms-swift, or with a release that is built otherwise:
    nothing is known there, and nothing refused; ms-swift itself refuses a flag that it lacks.
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


def merged(settings: Settings, recipe: Recipe, inputs: Inputs) -> dict[str, Value]:
    """Return the flags of a first attempt.

    Raises:
        LaunchError: CONFIG for what the launcher can't put on a command line.
    """
    return training_flags(
        recipe,
        inputs,
        output_dir=settings.work.checkpoints,
        resume=None,
        on_cpu=settings.gpus_per_node == 0,
    )


def show(settings: Settings, recipe: Recipe) -> None:
    """Print what would be trained, and how."""
    argv = merged(settings, recipe, inputs_of(settings, recipe, settings.work))
    words = [str(program(recipe, swift_folder())), *flatten(argv)]
    logs.info("check passed", world_size=settings.world_size, argv=shlex.join(words))

"""What can be refused before anything is downloaded: flags, sizes, sources."""

from __future__ import annotations

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
from launchers.refusal import Refusal
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
    found = owned(recipe) + secret(recipe) + unsaved(recipe) + table.empty(recipe.args)
    inputs = inputs_of(settings, recipe, settings.work)
    try:
        merged(settings, recipe, inputs)
    except LaunchError as error:
        found.append(_of_error(error))
    known = known_flags(recipe)
    if known.names:
        found += installed.check_flags(recipe.args, known.names, RENAMED[recipe.backend])
        judged = kinds.check(recipe.args, known.kinds)
        judged += broken(settings, recipe, None) if is_gang else []
        named = {refusal.path for refusal in found}  # one message for each key
        found += [refusal for refusal in judged if refusal.path not in named]
    refuse(found)


def _of_error(error: LaunchError) -> Refusal:
    """Return an error of one key as a refusal of that key."""
    path, _, wrong = error.cause.partition(": ")
    return Refusal(id=error.id, path=path, says=f"{wrong}; {error.remedy}")


def owned(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that only the launcher may set."""
    return [
        _refused("flag-owned", name, "set by the launcher; remove it")
        for name in recipe.args
        if name in OWNED[recipe.backend]
    ]


def secret(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that holds a secret; its value is not repeated."""
    seen = "a secret, which everybody who can see the run could read; remove it and"
    advice = {name: secret_advice(name) for name in recipe.args}
    return [
        _refused("flag-secret", name, f"{seen} {what}") for name, what in advice.items() if what
    ]


def unsaved(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that would leave nothing to export."""
    found = []
    if _word(recipe, "save_strategy") in NO:
        says = f"{recipe.args['save_strategy']!r}: no checkpoint would be saved; use steps or epoch"
        found.append(_refused("nothing-saved", "save_strategy", says))
    if recipe.backend == "megatron" and _word(recipe, "save_safetensors") in NO:
        given = recipe.args["save_safetensors"]
        says = f"{given!r}: the export consists of safetensors; remove it"
        found.append(_refused("nothing-to-export", "save_safetensors", says))
    return found


def _refused(id: str, flag: str, says: str) -> Refusal:
    return Refusal(id=id, path=f"recipe.args.{flag}", says=says)


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

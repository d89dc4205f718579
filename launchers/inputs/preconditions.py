"""The checks of a recipe before anything is trained: flags, sources, sizes, the model's sizes.

``check_recipe`` needs no model and runs first. ``check_model`` judges the model's sizes as soon as
they are known: usually before the download, otherwise after it.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launchers import logs
from launchers.config.budget import Budget
from launchers.config.flag_value import Value, as_text, switch
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch, Settings
from launchers.config.sources import split_count
from launchers.exits import Exit, LaunchError
from launchers.flags import flag_types, installed
from launchers.flags.command_line import (
    Inputs,
    flatten,
    program,
    script_command,
    training_flags,
)
from launchers.flags.flag_types import FlagType
from launchers.flags.packages import missing
from launchers.flags.renames import OWNED, RENAMED, secret_advice
from launchers.inputs import model_preview
from launchers.inputs.dataset_check import column_map
from launchers.plan.model_config import ModelConfig
from launchers.refusal import Refusal
from launchers.rules import table
from launchers.rules.model import refused
from launchers.system import lookup
from launchers.system.ms_swift import swift_folder
from launchers.system.remedies import here
from launchers.upstream import source
from launchers.upstream.versions import parse_version


@dataclass(frozen=True, kw_only=True)
class Known:
    """The flags of the installed ms-swift; empty when they are not known."""

    names: frozenset[str] = frozenset()
    elsewhere: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Flags of the same task of the other backend, by backend."""
    types: Mapping[str, FlagType] = field(default_factory=dict)


def check_recipe(
    settings: Settings, recipe: Recipe, inputs: Inputs, *, is_gang: bool = True
) -> None:
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
    if recipe.script:
        script_command(recipe, inputs)
        if settings.launch.rehearse:
            says = "a script is not rehearsed: its steps are not known; remove rehearse"
            refuse([Refusal(id="rehearse-script", path="recipe.script", says=says)])
        if settings.training.budget != Budget():
            says = "a script does not stop at a budget; remove the budget"
            refuse([Refusal(id="budget-script", path="recipe.script", says=says)])
        return
    found = absent_libraries(settings.launch) + other_swift(recipe)
    found += owned(recipe) + secret(recipe) + unsaved(recipe)
    found += table.empty(recipe.args) + evaluated_too(recipe, inputs)
    try:
        first_attempt_flags(settings.launch, recipe, inputs)
        column_map(recipe)
    except LaunchError as error:
        found.append(_of_error(error))
    known = known_flags(recipe)
    if known.names:
        found += missing(recipe)
        found += installed.check_flags(
            recipe.args, known.names, RENAMED[recipe.backend], known.elsewhere
        )
        judged = flag_types.check_values(recipe.args, known.types)
        judged += broken_rules(settings, recipe, None) if is_gang else []
        named = {refusal.path for refusal in found}  # one message for each key
        found += [refusal for refusal in judged if refusal.path not in named]
    refuse(found)


def _of_error(error: LaunchError) -> Refusal:
    """Return an error of one key as a refusal of that key."""
    path, _, wrong = error.cause.partition(": ")
    return Refusal(id=error.id, path=path, says=f"{wrong}; {error.remedy}")


def absent_libraries(launch: Launch) -> list[Refusal]:
    """Return a message for each library without a folder: models below it would be copied."""
    says = "no such folder on this host; mount it here as on all others, or remove it"
    return [
        Refusal(id="library-missing", path=f"DPO_LIBRARIES={each}", says=says)
        for each in launch.libraries
        if not lookup.is_dir(each)
    ]


def other_swift(recipe: Recipe) -> list[Refusal]:
    """Return a message if the image has another ms-swift than the one that the chart checked."""
    seen, checked = source.version("ms-swift"), recipe.swift_version
    if not seen or not checked or parse_version(seen) == parse_version(checked):
        return []
    says = (
        f"{checked}, but the image has ms-swift {seen}; use an image with {checked}, or set "
        f'"{seen}", or recipe.checkFlags: false if the chart does not know that release'
    )
    return [Refusal(id="swift-version", path="recipe.swiftVersion", says=says)]


def owned(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that only the launcher may set."""
    says = "set by the launcher, from recipe.model, recipe.dataset and what the run has; remove it"
    return [
        refused("flag-owned", name, says) for name in recipe.args if name in OWNED[recipe.backend]
    ]


def secret(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that holds a secret; its value is not repeated."""
    seen = "a secret, which everybody who can see the run could read; remove it and"
    advice = {name: secret_advice(name) for name in recipe.args}
    return [refused("flag-secret", name, f"{seen} {what}") for name, what in advice.items() if what]


def evaluated_too(recipe: Recipe, inputs: Inputs) -> list[Refusal]:
    """Return a message for each dataset that is evaluated on too, whatever names its file has.

    ``plan`` compares the texts (``scripts/values``), which a link or another mount makes different.
    """
    given = recipe.args.get("val_dataset", [])
    evaluated = {
        _file(each, inputs.clone) for each in (given if isinstance(given, list) else [given])
    }
    return [
        refused(
            "evaluation-trained",
            "val_dataset",
            f"{_file(each)} is recipe.dataset[{position}] too, and rows that were trained on say "
            "nothing; use other rows, or split_dataset_ratio to hold out rows of recipe.dataset",
        )
        for position, each in enumerate(inputs.datasets)
        if _file(each) in evaluated
    ]


def _file(text: object, folder: Path | None = None) -> str:
    """Return the file of a dataset without its number of rows, by its only name."""
    return os.path.realpath((folder or Path("/")) / split_count(str(text))[0])


def unsaved(recipe: Recipe) -> list[Refusal]:
    """Return a message for each flag that would leave nothing to export."""
    found = []
    if _is_off(recipe, "save_strategy"):
        says = f"{recipe.args['save_strategy']!r}: no checkpoint would be saved; use steps or epoch"
        found.append(refused("nothing-saved", "save_strategy", says))
    if recipe.backend == "megatron" and _is_off(recipe, "save_safetensors"):
        given = recipe.args["save_safetensors"]
        says = f"{given!r}: the export consists of safetensors; remove it"
        found.append(refused("nothing-to-export", "save_safetensors", says))
    return found


def _is_off(recipe: Recipe, name: str) -> bool:
    """Return whether a flag is given as no; a list of one value reaches ms-swift as that value."""
    return switch(as_text(recipe.args.get(name, ""))) is False


def known_flags(recipe: Recipe) -> Known:
    """Return the flags of the installed ms-swift.

    The pod of a single stage may run an image without ms-swift, or with a release of another
    structure: its flags are not known, and none is refused here. ms-swift itself refuses a flag
    that it does not have.
    """
    packages = installed.installed()
    if "swift" not in packages:
        logs.warning("flags not checked", why="ms-swift is not installed in this image")
        return Known()
    entry, bounded = installed.ENTRIES[recipe.backend][recipe.task], table.ranged(recipe.backend)
    try:
        classes = installed.read(packages)
        names, found = installed.flags(classes, entry), installed.types(classes, entry)
        elsewhere = {
            backend: frozenset(installed.flags(classes, entries[recipe.task]))
            for backend, entries in installed.ENTRIES.items()
            if backend != recipe.backend
        }
    except LookupError as error:
        logs.warning("flags not checked", why=error)
        return Known()
    left = {name: kind for name, kind in found.items() if name not in bounded}
    return Known(names=frozenset(names), elsewhere=elsewhere, types=left)


def first_attempt_flags(launch: Launch, recipe: Recipe, inputs: Inputs) -> dict[str, Value]:
    """Return the training flags of the first attempt.

    Raises:
        LaunchError: CONFIG for a flag that the launcher cannot put on a command line.
    """
    return training_flags(
        recipe,
        inputs,
        output_dir=launch.work.checkpoints,
        resume=None,
        on_cpu=launch.gpus_per_node == 0,
    )


def log_command(launch: Launch, recipe: Recipe, inputs: Inputs) -> None:
    """Log the training command of the first attempt."""
    if recipe.script:
        words = script_command(recipe, inputs)
    else:
        argv = first_attempt_flags(launch, recipe, inputs)
        words = [str(program(recipe, swift_folder())), *flatten(argv)]
    logs.info("check passed", world_size=launch.world_size, argv=shlex.join(words))


@dataclass(frozen=True, kw_only=True)
class ModelVerdict:
    """The result of ``check_model``."""

    is_final: bool
    """False when the model's sizes are not known yet: check again after the download."""
    model_config: ModelConfig | None
    """The model's sizes; None when they are not known or not needed."""


def check_model(
    settings: Settings, recipe: Recipe, inputs: Inputs, *, may_ask: bool
) -> ModelVerdict:
    """Refuse what the model's sizes rule out; log warnings about values that are likely unintended.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe, which has passed ``check_recipe``.
        inputs: the paths of its inputs.
        may_ask: whether the model's hub may be asked: only before the download.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    model_config = model_preview.model_config(recipe, inputs, may_ask=may_ask)
    if model_config is None and may_ask and recipe.backend == "megatron":
        return ModelVerdict(is_final=False, model_config=None)
    known = broken_rules(settings, recipe, None)
    refuse([found for found in broken_rules(settings, recipe, model_config) if found not in known])
    for what in table.warn(recipe.args, _context(settings, recipe, model_config)):
        logs.warning("recipe", what=what)
    return ModelVerdict(is_final=True, model_config=model_config)


def refuse(refusals: list[Refusal]) -> None:
    """Refuse the run if there is any refusal.

    Raises:
        LaunchError: CONFIG with all messages.
    """
    if refusals:
        count = "" if len(refusals) == 1 else f" ({len(refusals)} mistakes)"
        raise LaunchError(
            Exit.CONFIG,
            " | ".join(map(str, refusals)),
            f"correct the values file{count} and {here('reinstall', 'start again')}",
            id=",".join(dict.fromkeys(refusal.id for refusal in refusals)),
        )


def broken_rules(
    settings: Settings, recipe: Recipe, model_config: ModelConfig | None
) -> list[Refusal]:
    """Return a message for each rule that the recipe breaks."""
    return table.check(recipe.args, _context(settings, recipe, model_config))


def core_version() -> str:
    """Return the version of the installed megatron-core; without one the pinned version."""
    return source.version("megatron-core") or table.CORE


def _context(settings: Settings, recipe: Recipe, model_config: ModelConfig | None) -> table.Context:
    gpu = settings.stages.preflight.gpu
    return table.Context.of(
        recipe,
        model_config=model_config,
        nodes=settings.launch.place.nodes,
        gpus_per_node=settings.launch.nproc_per_node,
        gpu_model=gpu.name if gpu else "",
        core=core_version(),
        swift=source.version("ms-swift"),
    )

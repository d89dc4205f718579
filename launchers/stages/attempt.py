"""Rank 0's decision before the gang starts: whether to train, and from which checkpoint."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch, Settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.flags import features
from launchers.gang.protocol import PreflightQuestion, StartMessage
from launchers.plan.footprint import save_every
from launchers.plan.model_config import ModelConfig
from launchers.rules import pairs, table
from launchers.stages import attempt_record, no_progress, resume
from launchers.stages.export import is_exported
from launchers.storage import checkpoint, disk, marker
from launchers.storage.checkpoint import Checkpoint
from launchers.system import lookup
from launchers.system.atomic_file import replace
from launchers.upstream import record, source
from launchers.upstream.table import of_feature


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of the gang."""

    number: int
    resume: Checkpoint | None

    def folder(self, work: Workspace) -> Path:
        """Return the folder of this attempt's logs and reports."""
        return work.attempts / str(self.number)


def next_attempt(work: Workspace, *, nodes: int = 1, verify_seconds: float = 0) -> Attempt:
    """Choose the next attempt's number and checkpoint (on rank 0, for all ranks).

    The number is the launcher's own: Kueue's preemption does not raise the JobSet's
    ``restart-attempt`` (jobset #1282), and logs keyed on it would be overwritten.
    """
    taken = [int(name) for name in lookup.entries(work.attempts) if name.isdecimal()]
    number = max(taken, default=0) + 1
    found = resume.choose(work.checkpoints, verify_seconds, nodes=nodes, attempt=number)
    return Attempt(number=number, resume=found)


def keep_identity(work: Workspace, inputs: Mapping[str, object]) -> None:
    """Write the identity of a run; refuse to resume checkpoints of another identity.

    ``inputs``: digests of the recipe and of the outputs of the stages before training.

    Raises:
        LaunchError: CONFIG naming what differs; IO if the storage does not answer, or the identity
            of before is torn.
    """
    if checkpoint.newest(work.checkpoints) is not None:
        before = marker.begun_with(work)
        changed = sorted(k for k in {*before, *inputs} if before.get(k) != inputs.get(k))
        if changed:
            raise LaunchError(
                Exit.CONFIG,
                f"run {work.run} has checkpoints of different {', '.join(changed)}",
                f"choose another release name, or remove {work.home}",
                id="run-changed",
            )
    disk.make_folder(work.home)
    replace(work.inputs, json.dumps(inputs, indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True, kw_only=True)
class StartDecision:
    """Rank 0's decision for all ranks."""

    attempt: Attempt
    identity: Mapping[str, object]
    """Digests of the recipe and of the outputs of the stages before training."""
    skip: str
    """Reason why nothing is trained; empty when training starts."""

    def message(
        self, outputs: tuple[tuple[str, str], ...], question: PreflightQuestion | None
    ) -> StartMessage:
        """Build the start message of the gang."""
        resume = self.attempt.resume
        return StartMessage(
            attempt=self.attempt.number,
            outputs=outputs,
            resume=resume.path.name if resume else "",
            skip=self.skip,
            preflight=question,
        )


def settle(
    settings: Settings, recipe: Recipe, model_config: ModelConfig | None, gpu_model: str
) -> tuple[Recipe, str]:
    """Decide ``promptOnce: auto`` (on rank 0, for all ranks): as the run has begun, or by rule.

    The recipe's digest in the run's identity is the record: packs with prompts once have other
    pairs. A run that began before there was ``auto`` computes them twice.

    Args:
        settings: the launcher's settings.
        recipe: that is trained.
        model_config: the model's sizes; None if they are not known.
        gpu_model: the chart's name of this pod's GPUs; empty if it is not known.

    Returns:
        The recipe with the decision, and the decision in words; these are empty where the values
        decide, or no rows of DPO are packed.
    """
    if recipe.prompt_once is not None or not recipe.has_packed_pairs:
        return recipe.settled[0], ""
    launch, made = settings.launch, marker.read(settings.launch.work.export)
    begun = [marker.begun_with(launch.work).get("recipe"), made and made.inputs.get("recipe")]
    kept = [each for one in begun for each in recipe.settled if each.identity == one]
    if kept:
        settled, why = kept[0], "as the run began"
    else:
        context = table.Context.of(
            recipe,
            model_config=model_config,
            nodes=launch.place.nodes,
            gpus_per_node=launch.nproc_per_node,
            gpu_model=gpu_model,
        )
        why = table.why_twice(recipe.args, context) or _unmeasured(settings)
        settled = recipe.settled[not why]
    said = f"computed {'once' if settled.prompt_once else 'twice'}" + (f": {why}" if why else "")
    logs.info("prompts of pairs", are=said, change="recipe.promptOnce")
    return settled, said


def _unmeasured(settings: Settings) -> str:
    """Return which of this pod's packages prompts once were not measured with; empty if none."""
    if settings.stages.code.python_path:
        return "not measured with packages of the clone"
    for package, known in pairs.MEASURED.items():
        if (seen := source.version(package).partition("+")[0]) not in known:
            return f"not measured with {package} {seen or '(not installed)'}"
    verdict = of_feature("prompt_once")
    return "" if verdict is None or verdict.is_installed else verdict.error().cause


def decide_start(settings: Settings, recipe: Recipe, digests: Mapping[str, str]) -> StartDecision:
    """Decide whether to train, and from which checkpoint.

    Raises:
        LaunchError: CONFIG when the run has checkpoints of another identity, or resumes under other
            versions of upstream; NO_PROGRESS or OUT_OF_MEMORY when its past attempts failed so
            that another one would, too.
    """
    launch, work = settings.launch, settings.launch.work
    identity: dict[str, object] = {"recipe": recipe.identity, **digests}
    if "train" in settings.stages.skips:
        skip = "SKIP_TRAIN=1"
    elif not recipe.script and is_exported(work, recipe, identity, settings.training.budget):
        skip = "up to date"
    else:
        skip = ""
        keep_identity(work, identity)
    verify = settings.training.verify_seconds
    attempt = next_attempt(work) if skip else checked_attempt(launch, recipe, verify)
    return StartDecision(attempt=attempt, identity=identity, skip=skip)


def checked_attempt(launch: Launch, recipe: Recipe, verify_seconds: float = 0) -> Attempt:
    """Choose the next attempt that trains, and check that it may.

    ``verify_seconds`` is 0 after a restart in place: the page cache has what was written.

    Raises:
        LaunchError: see ``decide_start``.
    """
    attempt = next_attempt(launch.work, nodes=launch.place.nodes, verify_seconds=verify_seconds)
    if attempt.resume is not None:
        on_cpu = launch.gpus_per_node == 0
        check_versions(attempt.resume, recipe, features.names(recipe, on_cpu=on_cpu))
    if not recipe.script:  # whose steps are not known
        _check_progress(launch.work, recipe, attempt)
    return attempt


def is_last_attempt(work: Workspace, recipe: Recipe) -> bool:
    """Return whether the run ends for good if its next attempt makes no progress, too."""
    return no_progress.is_last(attempt_record.history(work), save_every(recipe))


def _check_progress(work: Workspace, recipe: Recipe, attempt: Attempt) -> None:
    """Refuse an attempt after others without progress.

    The refusal is recorded as the attempt's end: once a person has started the run again, the
    attempts before it no longer count.
    """
    error = no_progress.judge(attempt_record.history(work), save_every(recipe))
    if error is not None:
        attempt_record.end(work, attempt.folder(work), 0, error)
        raise error


def check_versions(resume: Checkpoint, recipe: Recipe, names: Iterable[str]) -> None:
    """Compare the software that saved a checkpoint with the installed one, without importing it.

    A checkpoint without a record, made by an older launcher, only gives a warning.

    Raises:
        LaunchError: CONFIG naming each version and source that differs, before and now, unless the
            recipe allows it; IO if the record is torn.
    """
    name, before = resume.path.name, resume.features
    if "versions" not in before:
        logs.warning("resume versions unknown", checkpoint=name)
        return
    changed = "; ".join(record.differences(before, names))
    if changed and recipe.allow_version_change:
        logs.warning("resume versions changed", checkpoint=name, changed=changed)
    elif changed:
        raise LaunchError(
            Exit.CONFIG,
            f"{name} was saved with other software: {changed}",
            "use the image that the run began with, or set recipe.allowVersionChange: true and "
            "compare the next losses with those before",
            id="resume-versions",
        )

"""The export stage: the last or best checkpoint in Hugging Face format, in the run's ``export/``.

A merged adapter is exported as the whole model, with the adapter in ``adapter/``; an adapter
that was not merged, alone.
"""

import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch
from launchers.config.workspace import Workspace
from launchers.evaluation.evaluations import Evaluation, Measure
from launchers.exits import Exit, LaunchError
from launchers.flags import external_plugins, features
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.rehearsal import early_read
from launchers.rehearsal.read_back import read_back, refuse_differing
from launchers.stages import statement
from launchers.stages.attempt_record import recording
from launchers.stages.statement import Origin
from launchers.storage import checkpoint, disk, manifest, marker
from launchers.storage.checkpoint import Checkpoint
from launchers.storage.marker import Marker
from launchers.storage.output import FULL, OWN, Made, Outcome, produce, refuse_foreign
from launchers.system import lookup
from launchers.system.atomic_file import known_object, partial_of, read_object, replace, torn
from launchers.system.threads import begin

UNKNOWN = Origin()
SUFFIXES = (".json", ".jinja", ".model", ".py", ".safetensors", ".txt")
ARGUMENTS = "args.json"
"""ms-swift's arguments, which it reads again when it opens the export."""
ADAPTER = "adapter"
"""Folder in the export, and prefix of PEFT's file names."""
TRAINER_STATE = (
    checkpoint.COMPLETE,
    checkpoint.FEATURES,
    "latest_checkpointed_iteration.txt",
    "trainer_state.json",
)


def finish(
    launch: Launch,
    recipe: Recipe,
    identity: Mapping[str, object],
    attempt: Path,
    origin: Origin,
    env: Mapping[str, str],
) -> None:
    """Export what a run has trained, test the export, and log how it is served.

    Raises:
        LaunchError: see ``export``; CONFIG if the export differs from what was trained.
    """
    work = launch.work
    if recipe.script:
        logs.info("no export", why="recipe.backend is script", folder=work.home)
        return
    model = origin.model or work.export
    with recording(work, attempt, launch.place.rank):
        export(
            work,
            recipe,
            identity,
            holder=launch.pod,
            origin=origin,
            test=lambda folder, step: read_back(launch, folder, model, step, env, recipe.backend),
        )
        refuse_differing(launch)
    serve = serve_command(work, model, launch.nproc_per_node)
    logs.info("export ready", serve=shlex.join(serve))


def marker_inputs(recipe: Recipe, identity: Mapping[str, object]) -> dict[str, object]:
    """Return what an export was made from, as its marker records it.

    ``identity``: digests of the recipe and of the outputs of the stages before training.
    """
    return {**identity, **({} if recipe.export == "last" else {"export": recipe.export})}


def is_exported(
    work: Workspace, recipe: Recipe, identity: Mapping[str, object], budget: object = None
) -> bool:
    """Return whether the run has already ended with these inputs, or with this budget.

    An export that has changed since is a user's: nothing trains again, and it is not replaced. Only
    where nothing but weights differ and the last checkpoint is left to export them from, they are
    made again; what was there is kept next to the export.

    Raises:
        LaunchError: CONFIG if the folder is a user's; IO if its marker is torn, or the storage does
            not answer: training would begin again.
    """
    found = marker.read(work.export)
    if found is None and lookup.exists(work.export / marker.NAME):
        raise torn(work.export / marker.NAME, f"move {work.export} away to export or train again")
    refuse_foreign("export", work.export)
    ended = (identity, {**identity, "budget": str(budget)})
    if found is None or found.inputs not in [marker.plain(marker_inputs(recipe, e)) for e in ended]:
        return False
    if problems := _changes(work.export, found):
        names = (problem.partition(": ")[0] for problem in problems)
        if all(name.endswith(".safetensors") for name in names):
            logs.warning("export damaged", path=work.export, first=problems[0])
            last, steps = checkpoint.newest(work.checkpoints), reader.read(work.metrics, Row)
            if last is not None and last.step >= max((row.step for row in steps), default=0):
                return False
        logs.warning(
            "export edited or damaged since it was made; it is left as it is",
            id="export-edited",
            path=work.export,
            files=len(problems),
            first=problems[0],
            remedy="remove the folder to export the run's checkpoint again",
        )
    return True


def _changes(folder: Path, made: Marker) -> list[str]:
    return manifest.verify(folder, made.manifest, manifest.total(made.manifest) <= FULL)


def _keep_changed(folder: Path) -> None:
    """Rename what differs from the export's manifest: a user may have made it."""
    found = marker.read(folder)
    names = (problem.partition(": ")[0] for problem in (_changes(folder, found) if found else ()))
    changed = [(folder / name, lookup.status(folder / name)) for name in names]
    disk.keep(folder, [path for path, status in changed if status and status.st_size])


def export(
    work: Workspace,
    recipe: Recipe,
    identity: Mapping[str, object],
    *,
    holder: str,
    origin: Origin = UNKNOWN,
    test: Callable[[Path, int], Mapping[str, object]] = lambda folder, step: {},
) -> Outcome:
    """Put the Hugging Face files of the recipe's choice of checkpoint into ``export/``.

    The folder also gets a statement of what it was made from, ``statement.json``.

    Raises:
        LaunchError: INPUT_MISSING when training left no complete checkpoint, none that was
            evaluated and the best is wanted, or one without safetensors.
    """
    last = best(work, Measure.of(recipe)) if recipe.export == "best" else newest(work)
    files = files_of(last)
    if not any(file.suffix == ".safetensors" for file in files.values()):
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{last.path} has no safetensors, so there are no weights to export",
            "remove save_safetensors from recipe.args, and choose another release name",
            id="export-no-weights",
        )

    def make(folder: Path) -> Made:
        for name, file in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if file.name == ARGUMENTS:  # not linked: the checkpoint keeps its own
                remedy = f"restore it, or remove {file.parent.name} to export the one before"
                replace(folder / name, without_own(known_object(file, remedy)))
            else:
                link_or_copy(file, folder / name)
        stated = folder / statement.NAME
        known = early_read.noted(work.home).digests
        own = (*OWN, stated.name, partial_of(stated).name)
        digests = begin(partial(manifest.digest_folder, folder, own, known=known))
        tested = test(folder, last.step)  # meanwhile: both read what was not read early
        held = digests()
        replace(stated, statement.text(work, recipe, last, held, origin, tested))
        own_entry = lookup.existing(lambda: manifest.entry(stated), stated)
        return Made(manifest={**held, stated.name: own_entry})

    inputs = marker_inputs(recipe, identity)
    _keep_changed(work.export)
    return produce("export", work.run, work.export, inputs, make, skip=False, holder=holder)


def serve_command(work: Workspace, model: Path, gpus: int) -> list[str]:
    """Return the command with which vLLM serves an export under the run's name.

    ``model`` is the original one, which an export of the adapter alone needs.
    """
    name, parallel = work.run, ["--tensor-parallel-size", str(gpus)]
    if lookup.exists(work.export / "config.json"):
        return ["vllm", "serve", str(work.export), "--served-model-name", name, *parallel]
    rank = read_object(work.export / "adapter_config.json").get("r", 16)
    lora = ["--enable-lora", "--lora-modules", f"{name}={work.export}", "--max-lora-rank"]
    return ["vllm", "serve", str(model), *lora, str(rank), *parallel]


def newest(work: Workspace) -> Checkpoint:
    """Return the last complete checkpoint.

    Raises:
        LaunchError: INPUT_MISSING when there is none.
    """
    last = checkpoint.newest(work.checkpoints)
    if last is None:
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"training ended, and {work.checkpoints} has no complete checkpoint",
            "remove save_strategy and save_only flags from recipe.args: no checkpoint was saved",
            id="export-no-checkpoint",
        )
    return last


def best(work: Workspace, measure: Measure) -> Checkpoint:
    """Return the complete checkpoint with the best evaluation.

    Raises:
        LaunchError: INPUT_MISSING when no complete checkpoint was evaluated.
    """
    saved = {each.step: each for each in checkpoint.complete(work.checkpoints)}
    found = measure.best(reader.read(work.metrics, Evaluation), saved)
    if found is None:
        steps = ", ".join(map(str, sorted(saved))) or "none"
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"recipe.export: best, but no checkpoint (steps {steps}) has an evaluation with "
            f"{measure.name} in {work.metrics}",
            "set recipe.export: last and install again, or choose metric_for_best_model among "
            "the names there",
            id="export-not-evaluated",
        )
    logs.info("best checkpoint", by=measure.name, **found.summary())
    return saved[found.step]


def files_of(last: Checkpoint) -> dict[str, Path]:
    """Return the files of a checkpoint to export, by their names in the export.

    Raises:
        LaunchError: INPUT_MISSING when the merged model is damaged.
    """
    own = hugging_face_files(last.path)
    whole = checkpoint.merged(last.path)
    if not lookup.is_dir(whole):
        return {file.name: file for file in own}
    if not last.is_merged_whole:
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{whole} is incomplete: it was never sealed, or files were removed since",
            f"restore the files, or remove {whole.name} to export the adapter alone",
            id="export-merged-incomplete",
        )
    adapter = {f"{ADAPTER}/{f.name}": f for f in own if f.name.startswith(ADAPTER)}
    return {file.name: file for file in hugging_face_files(whole)} | adapter


def without_own(arguments: Mapping[str, Any]) -> str:
    """Return ``args.json`` without the launcher's own plugin and callbacks.

    ms-swift imports the plugins listed there wherever it opens the export
    (``swift/arguments/base_args/base_args.py``, ``load_args_from_ckpt``), where ours do not exist.
    """
    found = dict(arguments)
    if isinstance(plugins := found.get("external_plugins"), list):
        found["external_plugins"] = external_plugins.users_plugins(map(str, plugins))
    if isinstance(named := found.get("callbacks"), list):
        found["callbacks"] = features.users_callbacks(named)
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def hugging_face_files(folder: Path) -> list[Path]:
    """List the files of a checkpoint that belong to the Hugging Face format."""
    found = (folder / name for name in lookup.entries(folder) if name not in TRAINER_STATE)
    return [p for p in found if p.suffix in SUFFIXES and lookup.is_file(p)]


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file, or copy it if the file system has no hard links; replace an existing one."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        shutil.copy2(source, target)

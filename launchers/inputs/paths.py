"""Paths of a run's inputs: clone, model, datasets.

They are equal on every rank: they follow from settings, recipe and image, and from what the run
noted at its first start (``inputs.json``), which a restart keeps.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Code, Settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import Inputs
from launchers.storage import marker
from launchers.storage.output import partial_path, replaced
from launchers.system import lookup
from launchers.upstream import code_identity

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
CONVERTER = ("ms-swift", "mcore-bridge", "megatron-core", "transformers")
"""Distributions that convert a model."""


def inputs_of(settings: Settings, recipe: Recipe) -> Inputs:
    """Decide once where the run's inputs are, and whether the model is converted.

    Raises:
        LaunchError: CONFIG for a source that cannot be parsed, or one inside a clone when the run
            has no code.
    """
    work = settings.launch.work
    clone = clone_path(settings.stages.code, work, skip="clone" in settings.stages.skips)
    model = sources.parse_source(recipe.model, "recipe.model")
    datasets = sources.parse_datasets(recipe.dataset).values()
    why = conversion_skip_reason(recipe, is_skipped="convert" in settings.stages.skips)
    return Inputs(
        model=sources.local(model, "model", work, clone),
        mcore=None if why else work.mcore(_conversion(settings, model.slug)),
        not_converted=why,
        datasets=tuple(
            f"{sources.local(d, 'dataset', work, clone)}"
            + ("" if d.sample is None else f"#{d.sample}")
            for d in datasets
        ),
        clone=clone,
    )


def clone_path(code: Code, workspace: Workspace, *, skip: bool = False) -> Path | None:
    """Return the folder of the clone; None when the run has no code.

    All runs share the clone of a commit. A branch or tag may move: of it each run has a clone of
    its own, made at its first start, except a run that began when all were shared.

    Args:
        code: the training code.
        workspace: the run's workspace.
        skip: SKIP_CLONE=1: the shared clone, unless the run has one of its own.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    if not code.url:
        return None
    shared, own = workspace.code(slug(code)), workspace.own_code(slug(code))
    if FULL_SHA.fullmatch(code.ref):
        return shared
    noted = marker.begun_with(workspace).get(f"clone {code.url}@{code.ref}")
    begun = noted is not None and lookup.is_dir(shared)
    if lookup.is_dir(own) or lookup.is_dir(replaced(own)) or not (skip or begun):
        return own
    if noted is not None and lookup.is_dir(partial_path(own)):
        # of a killed repair; or of the first start, and then the run began with the shared clone
        return shared if noted == marker.digest_of(shared) else own
    return shared


def _conversion(settings: Settings, model: str) -> str:
    """Return the name of the converted model.

    Each converter has its own, so that none replaces the model that another run resumes with. A
    run keeps the one that it began with, also under another image.
    """
    for noted in marker.begun_with(settings.launch.work):
        stage, _, name = noted.partition(" ")
        if stage == "convert" and model in (name, name.rpartition("-")[0]):
            return name
    code = slug(settings.stages.code) if settings.stages.code.python_path else ""
    made_by = {"packages": code_identity.installed(CONVERTER), "code": code}
    return f"{model}-{code_identity.name(made_by)}"


def importable(settings: Settings, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the clone's folders of ``code.pythonPath`` first to import from.

    Raises:
        LaunchError: CONFIG for a folder that is not one of the clone.
    """
    code = settings.stages.code
    clone = clone_path(code, settings.launch.work, skip="clone" in settings.stages.skips)
    if not code.python_path:
        return env
    for name in code.python_path:
        if clone is None or name.startswith("/") or ".." in name.split("/"):
            raise LaunchError(
                Exit.CONFIG,
                f"code.pythonPath: {name!r} is not a folder of the clone of code.url",
                "set code.url, and paths relative to its clone, e.g. src, or . for all of it",
                id="code-python-path",
            )
    folders = [str(clone / name) for name in code.python_path if clone]
    return {**env, "PYTHONPATH": ":".join([*folders, *filter(None, [env.get("PYTHONPATH")])])}


def slug(code: Code) -> str:
    """Return the clone's folder name, one for each url and ref.

    >>> slug(Code(url="https://host/team/code.git", ref="v1", secret=None))
    'code@v1-28539744ef'
    """
    name = code.url.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
    return sources.folder_name(f"{name}@{code.ref}", f"{code.url} {code.ref}")


def conversion_skip_reason(recipe: Recipe, *, is_skipped: bool) -> str:
    """Return why the model is not converted; empty when it is.

    Args:
        recipe: the run's recipe; only Megatron reads a converted model.
        is_skipped: whether the user set SKIP_CONVERT=1.
    """
    if recipe.backend != "megatron":
        return f"backend {recipe.backend} reads the downloaded model"
    return "SKIP_CONVERT=1: Megatron reads the Hugging Face weights" if is_skipped else ""

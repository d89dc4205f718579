"""Paths of a run's inputs: clone, model, datasets. Pure, so equal on every rank."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Code, Settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import Inputs


def inputs_of(settings: Settings, recipe: Recipe) -> Inputs:
    """Decide once where the run's inputs are, and whether the model is converted.

    Raises:
        LaunchError: CONFIG for a source that cannot be parsed, or one inside a clone when the run
            has no code.
    """
    work = settings.work
    clone = clone_path(settings.code, work)
    model = sources.parse_source(recipe.model, "recipe.model")
    datasets = sources.parse_datasets(recipe.dataset).values()
    why = conversion_skip_reason(recipe, is_skipped="convert" in settings.skips)
    return Inputs(
        model=sources.local(model, "model", work, clone),
        mcore=None if why else work.mcore(model.slug),
        not_converted=why,
        datasets=tuple(
            f"{sources.local(d, 'dataset', work, clone)}"
            + ("" if d.sample is None else f"#{d.sample}")
            for d in datasets
        ),
        clone=clone,
    )


def clone_path(code: Code, workspace: Workspace) -> Path | None:
    """Return the folder of the clone; None when the run has no code."""
    return workspace.code(slug(code)) if code.url else None


def importable(settings: Settings, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the clone's folders of ``code.pythonPath`` first to import from.

    Raises:
        LaunchError: CONFIG for a folder that is not one of the clone.
    """
    code = settings.code
    clone = clone_path(code, settings.work)
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
    readable = re.sub(r"[^A-Za-z0-9._@-]+", "-", f"{name}@{code.ref}")[:100]
    return f"{readable}-{hashlib.sha256(f'{code.url} {code.ref}'.encode()).hexdigest()[:10]}"


def conversion_skip_reason(recipe: Recipe, *, is_skipped: bool) -> str:
    """Return why the model is not converted; empty when it is.

    Args:
        recipe: the run's recipe; only Megatron reads a converted model.
        is_skipped: whether the user set SKIP_CONVERT=1.
    """
    if recipe.backend != "megatron":
        return f"backend {recipe.backend} reads Hugging Face weights"
    return "SKIP_CONVERT=1: Megatron reads the Hugging Face weights" if is_skipped else ""

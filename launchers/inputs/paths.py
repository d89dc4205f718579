"""Paths of what a run reads: clone, model, datasets. Pure; equal on every rank."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from launchers import PACKAGE
from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Code, Settings
from launchers.config.workspace import Workspace
from launchers.flags.command_line import Inputs


def clone_path(code: Code, workspace: Workspace) -> Path | None:
    """Return where the clone is, or None when the run has no code."""
    return workspace.code(slug(code)) if code.url else None


def slug(code: Code) -> str:
    """Return the clone's folder name: another url or ref, another clone.

    >>> slug(Code(url="https://host/team/code.git", ref="v1", secret=None))
    'code@v1-28539744ef'
    """
    name = code.url.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
    readable = re.sub(r"[^A-Za-z0-9._@-]+", "-", f"{name}@{code.ref}")[:100]
    return f"{readable}-{hashlib.sha256(f'{code.url} {code.ref}'.encode()).hexdigest()[:10]}"


def unwanted(recipe: Recipe, *, skip: bool) -> str:
    """Say why there is nothing to convert; empty when there is.

    The reason of a skip that the user asked for differs from one that the recipe implies.
    """
    if recipe.backend != "megatron":
        return f"backend {recipe.backend} reads Hugging Face weights"
    return "SKIP_CONVERT=1: Megatron reads the Hugging Face weights" if skip else ""


def mcore_path(recipe: Recipe, work: Workspace) -> Path:
    """Return where the converted model goes."""
    return work.mcore(sources.parse(recipe.model, "recipe.model").slug)


def inputs_of(settings: Settings, recipe: Recipe, work: Workspace) -> Inputs:
    """Return the paths that training reads; the same on every rank, without looking."""
    clone_folder = clone_path(settings.code, work)
    model = sources.parse(recipe.model, "recipe.model")
    datasets = [sources.parse(d, f"recipe.dataset[{i}]") for i, d in enumerate(recipe.dataset)]
    skipped = unwanted(recipe, skip="convert" in settings.skips)
    return Inputs(
        model=sources.local(model, "model", work, clone_folder),
        mcore=None if skipped else mcore_path(recipe, work),
        datasets=tuple(
            f"{sources.local(d, 'dataset', work, clone_folder)}"
            + ("" if d.sample is None else f"#{d.sample}")
            for d in datasets
        ),
        clone=clone_folder,
        plugins=PACKAGE,
    )

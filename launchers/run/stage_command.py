"""One stage on its own: what a replicated job of ``stages.placement: jobs`` runs."""

from __future__ import annotations

from collections.abc import Mapping

from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.sources import parse
from launchers.exits import during
from launchers.gang.hello import hello
from launchers.inputs.paths import clone_path, inputs_of, mcore_path
from launchers.inputs.preconditions import check
from launchers.progress.progress import Progress, reporting
from launchers.run.pipeline import judge_inputs
from launchers.stages.clone import clone
from launchers.stages.convert import convert
from launchers.stages.download import download
from launchers.storage import marker

COMMANDS = ("clone", "download", "convert")


def run_stage(name: str, settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Run one of ``COMMANDS``; it finds its inputs where the stages before it left them."""
    digest = hello(settings, recipe).digest
    progress = Progress(path=settings.work.progress, run=settings.run, digest=digest)
    with reporting(progress):
        check(settings, recipe, is_gang=False)
        progress.begin(name)
        with during(name):
            _act(name, settings, recipe, env)
        progress.end("done")


def _act(name: str, settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    work, skip, holder = settings.work, name in settings.skips, settings.pod or settings.run
    if name == "clone":
        clone(settings.code, work, skip=skip, holder=holder)
    elif name == "download":
        folder = clone_path(settings.code, work)
        download(
            *(recipe.model, recipe.dataset, work, folder),
            skip=skip,
            holder=holder,
            judge=lambda: judge_inputs(settings, recipe, is_gang=False),
        )
    else:
        there = marker.read(work.model(parse(recipe.model, "recipe.model").slug))
        convert(
            settings,
            recipe,
            model=inputs_of(settings, recipe, work).model,
            model_digest="" if there is None else marker.digest(there),
            target=mcore_path(recipe, work),
            env=env,
        )

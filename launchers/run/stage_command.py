"""The commands ``clone``, ``download`` and ``convert``: one stage in a pod of its own.

The replicated jobs of ``stages.placement: jobs`` run them.
"""

from collections.abc import Mapping

from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.sources import parse_source
from launchers.exits import during
from launchers.flags.command_line import Inputs
from launchers.gang.protocol import Hello
from launchers.inputs.model_files import check_folder
from launchers.inputs.paths import inputs_of
from launchers.inputs.preconditions import check_recipe
from launchers.progress.progress import Progress, reporting
from launchers.run.prepare import judge_data
from launchers.stages.clone import clone
from launchers.stages.convert import convert
from launchers.stages.download import download
from launchers.storage import marker

COMMANDS = ("clone", "download", "convert")


def run_stage(name: str, settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Run one of ``COMMANDS``, on the outputs of the stages before it."""
    digest = Hello.of_run(settings, recipe).digest
    progress = Progress(path=settings.launch.work.progress, run=settings.launch.run, digest=digest)
    with reporting(progress):
        inputs = inputs_of(settings, recipe)
        check_recipe(settings, recipe, inputs, is_gang=False)
        progress.begin(name)
        with during(name):
            _act(name, settings, recipe, inputs, env)
        progress.end("done")


def _act(
    name: str, settings: Settings, recipe: Recipe, inputs: Inputs, env: Mapping[str, str]
) -> None:
    launch, skip = settings.launch, name in settings.stages.skips
    work, holder = launch.work, launch.pod or launch.run
    if name == "clone":
        clone(settings.stages.code, work, skip=skip, holder=holder)
    elif name == "download":
        download(
            recipe.model,
            recipe.dataset,
            work,
            inputs.clone,
            skip=skip,
            holder=holder,
            judge=lambda: judge_data(launch, recipe, inputs, is_gang=False),
        )
        check_folder(inputs.model, recipe.model, recipe)
    else:
        digest = marker.digest_of(work.model(parse_source(recipe.model, "recipe.model").slug))
        convert(launch, recipe, inputs, model_digest=digest, env=env)

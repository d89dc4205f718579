"""The commands ``clone``, ``download`` and ``convert``: one stage in a pod of its own.

The replicated jobs of ``stages.placement: jobs`` run them.
"""

from collections.abc import Mapping

from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.gang.protocol import Hello
from launchers.inputs.paths import inputs_of
from launchers.inputs.preconditions import check_recipe
from launchers.progress.progress import Progress, reporting
from launchers.run.prepare import acts, perform

COMMANDS = ("clone", "download", "convert")


def run_stage(name: str, settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Run one of ``COMMANDS``, on the outputs of the stages before it."""
    digest = Hello.of_run(settings, recipe).digest
    progress = Progress(path=settings.launch.work.progress, run=settings.launch.run, digest=digest)
    with reporting(progress):
        inputs = inputs_of(settings, recipe)
        check_recipe(settings, recipe, inputs, is_gang=False)
        stages = acts(settings, recipe, inputs, env, is_gang=False)
        perform(name, stages[name], progress)

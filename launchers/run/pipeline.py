"""What rank 0 does before the gang starts, and how the others see that it was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.workspace import Workspace
from launchers.exits import during
from launchers.gang.protocol import Message
from launchers.inputs import dataset_check, model_files
from launchers.inputs.paths import clone_path, inputs_of, mcore_path
from launchers.progress.progress import Progress
from launchers.rules.parallelism import DENSE
from launchers.stages.clone import clone
from launchers.stages.convert import convert
from launchers.stages.download import download
from launchers.storage.output import Outcome


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The outputs of the stages before training."""

    outcomes: tuple[Outcome, ...]

    def digests(self) -> dict[str, str]:
        """Return the digest of each output, by stage and name."""
        return {f"{o.stage} {o.name}": o.digest for o in self.outcomes if o.digest}

    def message(self) -> Message:
        """List the outputs for the other ranks."""
        return {"outputs": [[str(o.path), o.digest] for o in self.outcomes if o.digest]}


def prepare(
    settings: Settings,
    recipe: Recipe,
    work: Workspace,
    progress: Progress,
    announce: Callable[[str], None],
    env: Mapping[str, str],
    judge_model: Callable[[], object] | None = None,
) -> Prepared:
    """Run clone, download and convert; each is up to date, done or skipped afterwards.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe.
        work: where everything is kept.
        progress: what is told of the run.
        announce: tells the gang which stage runs.
        env: of this process.
        judge_model: refuses what the model rules out, where nobody could look at it before.
    """

    def stage(name: str, act: Callable[[], list[Outcome]]) -> list[Outcome]:
        announce(name)
        progress.begin(name)
        with during(name):
            outcomes = act()
        progress.end(*_summary(outcomes))
        return outcomes

    skips, holder = settings.skips, settings.pod or settings.run
    cloned = stage(
        "clone", lambda: [clone(settings.code, work, skip="clone" in skips, holder=holder)]
    )
    downloaded = stage(
        "download",
        lambda: download(
            recipe.model,
            recipe.dataset,
            work,
            clone_path(settings.code, work),
            skip="download" in skips,
            holder=holder,
            judge=lambda: judge_inputs(settings, recipe),
        ),
    )
    inputs = inputs_of(settings, recipe, work)
    with during("download"):
        model_files.check(inputs.model, recipe.model)
        if judge_model is not None:
            judge_model()
    converted = stage(
        "convert",
        lambda: [
            convert(
                settings,
                recipe,
                model=inputs.model,
                model_digest=downloaded[0].digest,
                target=mcore_path(recipe, work),
                env=env,
            )
        ],
    )
    return Prepared(outcomes=(*cloned, *downloaded, *converted))


def judge_inputs(settings: Settings, recipe: Recipe, *, is_gang: bool = True) -> None:
    """Look at the model if it is here, and at the rows of the datasets, which are.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe.
        is_gang: whether this pod is one of the gang; a stage's own pod does not know its sizes.

    Raises:
        LaunchError: DATA when nothing could be trained from them.
    """
    model_files.check_early(recipe.model)
    clone_folder = clone_path(settings.code, settings.work)
    datasets = []
    for number, text in enumerate(recipe.dataset):
        key = f"recipe.dataset[{number}]"
        found = sources.parse(text, key)
        path = sources.local(found, "dataset", settings.work, clone_folder)
        datasets.append(dataset_check.Dataset(key=key, path=path, sample=found.sample))
    dataset_check.check(recipe, datasets, replicas=_replicas(settings, recipe) if is_gang else None)


def _replicas(settings: Settings, recipe: Recipe) -> int | None:
    """Return how many copies of the model see different rows; None where the sizes are wrong."""
    sizes = [recipe.arg(name, "1") for name in DENSE]
    if not all(size.isascii() and size.isdecimal() and int(size) for size in sizes):
        return None
    return settings.world_size // prod(map(int, sizes)) or None


def _summary(outcomes: list[Outcome]) -> tuple[str, str]:
    """Sum up a stage's outputs: done if anything was done."""
    for state in ("done", "up to date", "skipped"):
        for outcome in outcomes:
            if outcome.state == state:
                return state, outcome.why
    return "skipped", "nothing to do"

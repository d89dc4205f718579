"""Rank 0's stages before the gang starts: clone, download, convert."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch, Settings
from launchers.exits import during
from launchers.flags import code_files
from launchers.flags.command_line import Inputs
from launchers.inputs import dataset_check, model_files
from launchers.progress.progress import Progress
from launchers.rules.parallelism import DENSE
from launchers.stages.clone import clone
from launchers.stages.convert import convert
from launchers.stages.download import download
from launchers.storage import marker
from launchers.storage.output import Outcome

Act = Callable[[], list[Outcome]]
"""Runs one stage; each of its outputs is up to date, done or skipped afterwards."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The outputs of the stages before training."""

    outcomes: tuple[Outcome, ...]

    @property
    def digests(self) -> dict[str, str]:
        """Return the digest of each output, by stage and name."""
        return {f"{o.stage} {o.name}": o.digest for o in self.outcomes if o.digest}

    @property
    def outputs(self) -> tuple[tuple[str, str], ...]:
        """Return the path and digest of each output."""
        return tuple((str(o.path), o.digest) for o in self.outcomes if o.digest)


def prepare(
    settings: Settings,
    recipe: Recipe,
    inputs: Inputs,
    env: Mapping[str, str],
    progress: Progress,
    *,
    announce: Callable[[str], None],
    judge_model: Callable[[], object] | None = None,
) -> Prepared:
    """Run clone, download and convert; each is up to date, done or skipped afterwards.

    ``judge_model`` refuses what the model's sizes rule out, if they were not known before.
    """
    outcomes: list[Outcome] = []
    for name, act in acts(settings, recipe, inputs, env, judge_model=judge_model).items():
        announce(name)
        outcomes += perform(name, act, progress)
    return Prepared(outcomes=tuple(outcomes))


def acts(
    settings: Settings,
    recipe: Recipe,
    inputs: Inputs,
    env: Mapping[str, str],
    *,
    is_gang: bool = True,
    judge_model: Callable[[], object] | None = None,
) -> dict[str, Act]:
    """Return clone, download and convert by name; each uses what those before it have made.

    ``is_gang`` is that of ``judge_data``, ``judge_model`` that of ``prepare``.
    """
    launch, skips = settings.launch, settings.stages.skips
    work, holder = launch.work, launch.pod or launch.run

    def cloned() -> list[Outcome]:
        made = clone(settings.stages.code, work, skip="clone" in skips, holder=holder)
        code_files.verify(recipe.args, recipe.script, inputs.clone)
        return [made]

    def downloaded() -> list[Outcome]:
        made = download(
            recipe.model,
            recipe.dataset,
            work,
            inputs.clone,
            skip="download" in skips,
            holder=holder,
            judge=lambda: judge_data(launch, recipe, inputs, is_gang=is_gang),
        )
        model_files.check_folder(inputs.model, recipe.model, recipe)
        if judge_model is not None:
            judge_model()
        return made

    def converted() -> list[Outcome]:
        model = sources.parse_source(recipe.model, "recipe.model")
        digest = marker.digest_of(sources.home(model, "model", work))
        return [convert(launch, recipe, inputs, model_digest=digest, env=env)]

    return {"clone": cloned, "download": downloaded, "convert": converted}


def perform(name: str, act: Act, progress: Progress) -> list[Outcome]:
    """Run a stage, and note its begin and its end."""
    progress.begin(name)
    with during(name):
        outcomes = act()
    progress.end(*_summary(outcomes))
    return outcomes


def judge_data(launch: Launch, recipe: Recipe, inputs: Inputs, *, is_gang: bool = True) -> None:
    """Check a local model's folder and the rows of the datasets, before the model is downloaded.

    The pod of a single stage does not know the gang's sizes: ``is_gang`` is False.

    Raises:
        LaunchError: DATA when nothing could be trained from them.
    """
    if recipe.script:  # what it reads is not known
        return
    model_files.check_local_source(recipe)
    datasets = []
    for key, found in sources.parse_datasets(recipe.dataset).items():
        path = sources.local(found, "dataset", launch.work, inputs.clone)
        datasets.append(dataset_check.Dataset(key=key, path=path, sample=found.sample))
    dataset_check.check(recipe, datasets, replicas=_replicas(launch, recipe) if is_gang else None)


def _replicas(launch: Launch, recipe: Recipe) -> int | None:
    """Return the data-parallel size; None when the recipe's parallel sizes are invalid."""
    sizes = [recipe.arg(name, "1") for name in DENSE]
    if not all(size.isascii() and size.isdecimal() and int(size) for size in sizes):
        return None
    return launch.world_size // prod(map(int, sizes)) or None


def _summary(outcomes: list[Outcome]) -> tuple[str, str]:
    """Return state and reason of a stage with several outputs: done if any was done."""
    for state in ("done", "up to date", "skipped"):
        for outcome in outcomes:
            if outcome.state == state:
                return state, outcome.why
    return "skipped", "nothing to do"

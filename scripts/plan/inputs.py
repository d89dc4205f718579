"""Sizes of a recipe's model and dataset, as far as this machine knows them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.inputs import dataset_check, row_files, row_forms
from launchers.inputs.dataset_check import Dataset
from launchers.inputs.model_files import unsuitable
from launchers.inputs.model_weights import refusal
from launchers.inputs.row_files import Rows
from launchers.inputs.row_folder import Place
from launchers.inputs.row_forms import COLUMNS as FORM_COLUMNS
from launchers.inputs.row_pairs import Pair, Reader
from launchers.inputs.rows.columns import Dropped
from launchers.plan import model_config
from launchers.plan.model_config import ModelConfig
from launchers.plan.plan import Job
from launchers.plan.run_length import TOKENS, Data
from launchers.rules import table
from launchers.rules.pairs import MEASURED
from launchers.yaml_file import read_yaml
from scripts.problem import Problem, of_launcher

MODELS = Path(__file__).with_name("models.yaml")
CHARACTERS_PER_TOKEN = 4.0
"""Rule of thumb for English text with a vocabulary of 100,000 or more; other languages and code
have fewer."""
SAMPLED_ROWS = 2000
"""Rows of a file whose length is measured."""


def find_model(
    model: str, config: Path | None = None, recipe: Recipe | None = None
) -> tuple[ModelConfig | None, str]:
    """Look up a model's sizes.

    ``config`` is a ``config.json`` that the caller gave; it takes precedence. With a recipe it is
    also judged whether the recipe can train the model.

    Returns:
        The sizes and their origin; None and what to give when the sizes are not known.

    Raises:
        Problem: the file can't be read, holds no sizes, or is of a model that can't be trained.
    """
    if config is not None:
        return read_config(config, recipe), str(config)
    with of_launcher():
        parsed = sources.parse_source(model, "recipe.model")
    here = Path(parsed.repo) / "config.json"
    if parsed.hub == "file" and here.is_file():
        return read_config(here), str(here)
    name = known_model(parsed.name)
    if name:
        return model_config.parse_config(known_models()[name]), f"known as {name}"
    return None, f"the sizes of {parsed.name} are not known: give --model-config config.json"


def read_config(config: Path, recipe: Recipe | None = None) -> ModelConfig:
    """Read a ``config.json``.

    Raises:
        Problem: it does not exist, is not JSON, a size is missing, or the recipe can't train it.
    """
    try:
        with of_launcher(f"{config}: "):
            document = json.loads(config.read_text(encoding="utf-8-sig"))
            if recipe and (wrong := unsuitable(document, recipe)):
                raise refusal(*wrong)
            return model_config.parse_config(document)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise Problem(f"{config} is not the config.json of a model: {error}") from None


def known_model(name: str) -> str:
    """Return the known model whose name begins a model's name; empty when there is none.

    Fine-tuned models carry the name of the model that they were trained from.

    >>> known_model("Qwen3-30B-A3B-Instruct-2507"), known_model("Qwen3-4B")
    ('Qwen3-30B-A3B', 'Qwen3-4B')
    >>> known_model("Qwen3-40B")
    ''
    """
    prefix = f"{name}-".lower()
    fitting = [known for known in known_models() if prefix.startswith(f"{known}-".lower())]
    return max(fitting, key=len, default="")


@cache
def known_models() -> Mapping[str, dict[str, Any]]:
    """Return the ``config.json`` of each known model, by its name."""
    models: dict[str, dict[str, Any]] = read_yaml(MODELS)
    return models


def find_data(
    datasets: Sequence[str],
    *,
    pairs: int | None = None,
    tokens: float | None = None,
    prompt_once: bool = False,
) -> Data | None:
    """Measure a dataset.

    Returns:
        None when nothing is given, the rows cannot be counted in a file of this machine, and a
        source has no ``#N``; with ``tokens`` alone their number is unknown.

    Raises:
        Problem: a source or a file can't be parsed.
    """
    unknown = "; prompts counted twice: their part is read from files (--data)"
    why = unknown if prompt_once else ""
    with of_launcher():
        named = [
            sources.parse_source(text, f"recipe.dataset[{n}]") for n, text in enumerate(datasets)
        ]
    found = None if pairs is not None else _counted(named, tokens, prompt_once)
    if pairs is None and found is None and all(each.sample for each in named):
        pairs = sum(each.sample or 0 for each in named)
    if pairs:
        source = "" if tokens else " assumed (--tokens)"
        return replace(_data(pairs, tokens or TOKENS, source + why), assumed=not tokens)
    if found is None and tokens:
        return Data(pairs=None, tokens=tokens, source=f"pairs of {tokens:,.0f} tokens{why}")
    return found


def context(job: Job) -> table.Context:
    """Return what the rules judge a job's flags for."""
    return table.Context.of(
        job.recipe,
        model_config=job.model_config,
        nodes=job.nodes,
        gpus_per_node=max(1, job.gpus_per_node),
        gpu_model=job.gpu_model,
    )


def prompts(job: Job) -> tuple[bool, str]:
    """Return whether rank 0 will compute prompts of pairs once, and what ``auto`` is, in words."""
    recipe = job.recipe
    if recipe.prompt_once is not None or not recipe.has_packed_pairs:
        return bool(recipe.prompt_once), ""
    if why := table.why_twice(recipe.args, context(job)):
        return False, f"twice: {why}"
    stack = (f"{name} {' or '.join(each)}" for name, each in MEASURED.items() if all(each))
    without = next(name for name, each in MEASURED.items() if not all(each))
    return True, f"once, if the image has {', '.join(stack)} and no {without}"


def _counted(
    datasets: Sequence[sources.Source], tokens: float | None, prompt_once: bool
) -> Data | None:
    """Count and measure the rows of files on this machine; None if there are others."""
    counts, lengths, prompts = 0, list[float](), list[float]()
    for place, parsed in enumerate(datasets):
        file = Path(parsed.repo)
        if parsed.hub != "file" or not file.exists():
            return None
        with of_launcher():
            files = row_files.read(Place(f"recipe.dataset[{place}]", file))
        rows = [each.count() for each in files]
        if None in rows or any(each.unread for each in files):
            return None
        total = sum(row for row in rows if row is not None)
        counts += total if parsed.sample is None else parsed.sample
        for pair in _pairs(files):
            texts = [text for side in (pair.chosen, pair.rejected) for _, text in side.turns]
            lengths.append(float(sum(map(len, texts))))
            asked = pair.chosen.asked if pair.has_one_prompt else ()
            prompts.append(float(sum(len(text) for _, text in asked)))
    if not counts:
        return None
    mean = sum(lengths) / max(1, len(lengths)) / CHARACTERS_PER_TOKEN or TOKENS
    guessed = "" if tokens else f" by {CHARACTERS_PER_TOKEN:.0f} characters a token"
    share = sum(prompts) / max(1.0, sum(lengths)) if prompt_once else 0.0
    once = f"; {share:.0%} of them are prompts computed once" if prompt_once else ""
    found = _data(counts, tokens or mean, guessed + once)
    return replace(found, again=share * found.tokens)


def _data(pairs: int, tokens: float, why: str) -> Data:
    return Data(pairs=pairs, tokens=tokens, source=f"{pairs:,} pairs of {tokens:,.0f} tokens{why}")


def _pairs(files: Sequence[Rows]) -> Iterator[Pair]:
    """Yield pairs as ms-swift reads them; the prompt is in each of both texts."""
    rows = [row for each in files for _, row in each.rows[:SAMPLED_ROWS]]
    form = row_forms.find(rows[: row_forms.LOOKED_AT])
    names = [name for each in files for name in each.columns]
    reader = Reader(columns=FORM_COLUMNS if form else names)
    for row in rows:
        try:
            pair = reader.pair(form.read(row) if form else row)
        except (Dropped, ValueError, KeyError, TypeError, IndexError):
            continue
        yield pair


def judge_rows(recipe: Recipe, paths: Sequence[Path]) -> None:
    """Refuse rows as the pods' check would.

    Raises:
        Problem: a path does not exist, or the check refuses its rows.
    """
    for path in paths:
        if not path.exists():
            raise Problem(f"--data {path}: does not exist; give files or folders of rows")
    named = [Dataset(key=f"--data[{n}]", path=path) for n, path in enumerate(paths)]
    with of_launcher():
        dataset_check.check(recipe, named, replicas=None)

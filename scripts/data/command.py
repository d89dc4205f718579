"""`megatron-dpo data`: read, judge, measure, show."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from launchers.config import sources
from launchers.config.recipe import Recipe, parse
from launchers.exits import LaunchError
from launchers.inputs import dataset_check, row_advice
from launchers.inputs.dataset_check import Dataset, Judged
from scripts.data import page, screen
from scripts.data.measure import measure, tokenizer
from scripts.helm import template
from scripts.plan.submission import read_submission
from scripts.problem import Problem, of_launcher
from scripts.report import output_file
from scripts.terminal import SCHEMA

READ_BYTES = 256 * 1024**2
"""Part of a file of which every row is read: 40,000 long pairs, which take about 1.5 GiB."""
MAX_LENGTH = 2048
"""ms-swift has no default of ``max_length`` but the model's; a length to judge by."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo data`."""

    paths: Sequence[Path]
    files: Sequence[Path] = ()
    """Values files: columns, max_length, template, limits."""
    sets: Sequence[str] = ()
    held_out: Sequence[Path] = ()
    model: Path | None = None
    as_json: bool = False
    page: Path | None = None
    """File that the page is written to."""


def run(request: Request, console: Console) -> int:
    """Show what datasets hold.

    Returns:
        0, or 1 when a run would refuse them.

    Raises:
        Problem: a file does not exist, or the values are refused.
    """
    document = document_of(request)
    if request.page:
        output_file.write(request.page, page.render(document))
    if request.as_json:
        console.out(json.dumps(document, indent=1), highlight=False)
    else:
        screen.show(document, console)
    return 1 if document["refused"] else 0


def document_of(request: Request) -> dict[str, Any]:
    """Return the document of a request's datasets, judged with the recipe of its values.

    Raises:
        Problem: a file does not exist, or the values are refused.
    """
    for path in (*request.paths, *request.held_out):
        if not path.exists():
            raise Problem(f"{path} does not exist; give files or folders of rows")
    recipe = recipe_of(request)
    refused: list[str] = []
    datasets = _judged(recipe, "file", request.paths, refused)
    held_out = _judged(recipe, "--held-out", request.held_out, refused)
    for each in datasets:
        try:
            dataset_check.refuse(recipe, each)
        except LaunchError as error:
            refused.append(f"{error} [{error.id}]")
    pairs = [pair for each in datasets for _, _, pair in each.pairs]
    evaluated = [pair for each in held_out for _, _, pair in each.pairs]
    model = request.model or _local_model(recipe)
    lengths, why = tokenizer(model)
    given = recipe.arg("max_length", str(MAX_LENGTH))
    limit = int(given) if given.isdecimal() else MAX_LENGTH
    numbers = measure(pairs, evaluated if request.held_out else None, lengths, limit)
    return {
        "schema": SCHEMA,
        "refused": refused,
        "datasets": [_dataset(each) for each in datasets],
        "max_length": limit,
        "template": recipe.arg("template") or _template(model),
        "no_tokens": why,
        **asdict(numbers),
    }


def recipe_of(request: Request) -> Recipe:
    """Return the recipe of the values, or one of defaults.

    Raises:
        Problem: the values are refused.
    """
    if request.files:
        return read_submission(template("run", request.files, request.sets)).recipe
    document: dict[str, Any] = {"backend": "transformers", "task": "rlhf", "args": {}}
    document |= {"model": "hf://org/model@main", "dataset": ["hf://org/rows@main"]}
    for each in request.sets:
        name, _, value = each.partition("=")
        if not name.startswith("recipe.args."):
            raise Problem(f"--set {each}: without -f only recipe.args.NAME=VALUE is read")
        _put(document["args"], name.removeprefix("recipe.args.").split("."), value)
    with of_launcher():
        return parse(document)


def _put(args: dict[str, Any], names: list[str], value: str) -> None:
    for name in names[:-1]:
        args = args.setdefault(name, {})
    args[names[-1]] = value


def _judged(
    recipe: Recipe, key: str, paths: Sequence[Path], refused: list[str]
) -> Sequence[Judged]:
    named = [Dataset(key=f"{key}[{n}]", path=path) for n, path in enumerate(paths)]
    try:
        return dataset_check.judge(recipe, named, READ_BYTES)
    except LaunchError as error:
        refused.append(f"{error} [{error.id}]")
        return []


def _dataset(judged: Judged) -> dict[str, Any]:
    first = dataset_check.first_rows(judged.files)
    columns = row_advice.columns(first)
    counts = [each.count() for each in judged.files]
    return {
        "file": str(judged.dataset.path),
        "rows": None if None in counts else sum(each for each in counts if each is not None),
        "read": judged.rows,
        "kept": len(judged.pairs),
        "columns": list(dict.fromkeys(name for row in first for name in row)),
        "form": judged.form.name if judged.form else "",
        "unread": judged.unread,
        "faults": dataset_check.describe(judged) if judged.faults else "",
        "columns_map": dict(columns) if columns else None,
        "plugin": row_advice.plugin(first, judged.dataset.path.name) if not columns else "",
    }


def _local_model(recipe: Recipe) -> Path | None:
    try:
        found = sources.parse_source(recipe.model, "recipe.model")
    except LaunchError:
        return None
    return Path(found.repo) if found.hub == "file" else None


def _template(model: Path | None) -> str:
    try:
        text = (model / "config.json").read_text(encoding="utf-8") if model else "{}"
        kind = json.loads(text).get("model_type", "")
    except (OSError, ValueError, AttributeError):
        kind = ""
    return f"the one that ms-swift chooses for {kind}" if kind else "the one of the model"

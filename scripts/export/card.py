"""`megatron-dpo card`: the model card of an export, from the facts of its statement alone.

The form is the hub's: https://huggingface.co/docs/hub/model-cards (YAML front matter, Markdown).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from launchers.stages.statement import TRAINING
from launchers.state.json_text import part
from launchers.system.atomic_file import replace
from scripts.export import statement as statements
from scripts.export import tested
from scripts.export.statement import Statement
from scripts.problem import Problem
from scripts.terminal import SCHEMA, print_json

NAME = "README.md"
HUB = "hf://"


def run(folder: Path, console: Console, *, as_data: bool) -> int:
    """Write the card next to the statement; return the exit status.

    Raises:
        Problem: the export has no statement, or another README.md.
    """
    text, path = render(statements.read(folder)), folder / NAME
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") != text:
        raise Problem(
            f"{path} exists and is not this card; remove or rename it, it is not replaced"
        )
    replace(path, text)
    if as_data:
        print_json(console, {"schema": SCHEMA, "card": str(path)})
    else:
        console.print(str(path), highlight=False, soft_wrap=True)
    return 0


def render(stated: Statement) -> str:
    """Return the card; a fact that the statement does not have is left out."""
    built = part(stated.predicate, "buildDefinition")
    recipe = part(part(built, "externalParameters"), "recipe")
    base, _, revision = str(recipe.get("model")).partition("@")
    data = [str(each).partition("@")[0] for each in recipe.get("dataset") or []]
    front: dict[str, Any] = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    if licence := _licence(built):
        front["license"] = licence
    if base.startswith(HUB):
        front["base_model"] = base.removeprefix(HUB)
    if listed := [each.removeprefix(HUB) for each in data if each.startswith(HUB)]:
        front["datasets"] = listed
    front["tags"] = [str(recipe.get("args", {}).get("rlhf_type") or recipe.get("task"))]
    run_name = part(part(stated.predicate, "runDetails"), "metadata").get("invocationId")
    lines = [f"# {run_name}", "", "| fact | value |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in _facts(stated, recipe)]
    lines += ["", "## Arguments", "", "| argument | value |", "|---|---|"]
    lines += [f"| {_cell(n)} | {_cell(v)} |" for n, v in sorted(part(recipe, "args").items())]
    lines += ["", "`statement.json` has the digests of all files and of what they were made from."]
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n" + "\n".join(lines) + "\n"


def _licence(built: Mapping[str, Any]) -> str:
    """Return the licence that the base model's own card names."""
    listed = built.get("resolvedDependencies")
    notes = [part(each, "annotations") for each in listed or [] if isinstance(each, dict)]
    return next((str(each["license"]) for each in notes if each.get("license")), "")


def _facts(stated: Statement, recipe: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "base model", recipe.get("model")
    yield "data", ", ".join(map(str, recipe.get("dataset") or []))
    yield "method", f"{recipe.get('task')} with {recipe.get('backend')}"
    training = part(stated.predicate, TRAINING)
    yield "steps", f"{training.get('step')} of {training.get('total')}"
    if losses := training.get("losses"):
        yield "loss, first and last step", " → ".join(f"{value:.4g}" for value in losses)
    for held in training.get("evaluations") or []:
        shown = [f"{n} {held[n]:.4g}" for n in ("loss", "accuracy", "margin") if _is_known(held, n)]
        yield f"held-out pairs at step {held.get('step')}", ", ".join(shown)
    for name, value, note in tested.rows(part(training, "test")):
        yield name.lower(), f"{value}: {note}"
    inside = part(part(stated.predicate, "buildDefinition"), "internalParameters")
    versions = part(inside, "versions").items()
    yield "software", ", ".join(f"{name} {version}" for name, version in versions if version)


def _is_known(held: Mapping[str, Any], name: str) -> bool:
    return isinstance(held.get(name), int | float)


def _cell(value: object) -> str:
    r"""Return a value as a cell of a table.

    >>> _cell("a|b\nc")
    'a\\|b c'
    """
    return " ".join(str(value).replace("|", "\\|").split())

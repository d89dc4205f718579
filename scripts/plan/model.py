"""The sizes of a recipe's model: of a file that was given, of a folder here, or known by name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import yaml

from launchers.config import sources
from launchers.exits import LaunchError
from launchers.plan import model_config
from launchers.plan.model_config import Shape
from scripts.problem import Problem

KNOWN = Path(__file__).parent / "models"


def find(model: str, config: Path | None = None) -> tuple[Shape | None, str]:
    """Look for a model's sizes.

    Args:
        model: the recipe's source, such as ``hf://Qwen/Qwen3-8B@main``.
        config: a ``config.json`` that the caller gave; it wins.

    Returns:
        The sizes and where they are from; None and what to give when they are not known.

    Raises:
        Problem: the file can't be read, or holds no sizes.
    """
    if config is not None:
        return read(config), str(config)
    try:
        parsed = sources.parse(model, "recipe.model")
    except LaunchError as error:
        raise Problem(f"{error.cause}; {error.remedy}") from None
    here = Path(parsed.repo) / "config.json"
    if parsed.hub == "file" and here.is_file():
        return read(here), str(here)
    name = known_as(parsed.name)
    if name:
        return _known(name), f"known as {name}"
    return None, f"the sizes of {parsed.name} are not known: give --model-config config.json"


def read(config: Path) -> Shape:
    """Read a ``config.json``.

    Raises:
        Problem: it does not exist, is no JSON, or a size is missing.
    """
    try:
        return model_config.parse(json.loads(config.read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError) as error:
        raise Problem(f"{config} is no config.json of a model: {error}") from None
    except LaunchError as error:
        raise Problem(f"{config}: {error.cause}; {error.remedy}") from None


def known_as(name: str) -> str:
    """The known model whose name begins a model's name; empty when there is none.

    Fine-tuned models carry the name of the one that they began with.

    >>> known_as("Qwen3-30B-A3B-Instruct-2507"), known_as("Qwen3-4B"), known_as("Qwen3-40B")
    ('Qwen3-30B-A3B', 'Qwen3-4B', '')
    """
    names = (file.stem for file in KNOWN.glob("*.yaml"))
    fitting = [known for known in names if f"{name}-".lower().startswith(f"{known}-".lower())]
    return max(fitting, key=len, default="")


@cache
def _known(name: str) -> Shape:
    text = (KNOWN / f"{name}.yaml").read_text(encoding="utf-8")
    return model_config.parse(yaml.safe_load(text))

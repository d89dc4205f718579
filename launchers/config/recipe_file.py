"""Read the recipe from the file that ``DPO_RECIPE`` names: the chart's, or a values file."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from launchers import logs
from launchers.config.recipe import CHOICES, OWN, Recipe, parse
from launchers.exits import Exit, LaunchError

_OF_CHART = ("checkFlags",)
"""Keys of ``recipe`` in the values that only the chart reads."""


def load(path: Path) -> Recipe:
    """Read the recipe file.

    Raises:
        LaunchError: CONFIG, naming the key of the values file, the given value and the allowed
        ones.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise LaunchError(
            Exit.CONFIG,
            f"cannot read the recipe {path}: {error.strerror}",
            "set DPO_RECIPE to the path of a recipe.yaml or a values file",
            id="recipe-missing",
        ) from None
    except (yaml.YAMLError, ValueError) as error:  # not UTF-8, or an invalid date
        raise LaunchError(
            Exit.CONFIG, f"{path} is not valid YAML: {error}", "correct the file", id="recipe-yaml"
        ) from None
    return parse(_of_values(document))


def _of_values(document: object) -> object:
    """Return the recipe of a values file, with the chart's defaults; any other document as it is.

    What only the chart reads is logged: outside Kubernetes variables set it (``HOSTS.md``).
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("recipe"), Mapping):
        return document
    recipe = {key: value for key, value in document["recipe"].items() if value is not None}
    unread = [str(key) for key in document if key != "recipe"]
    unread += [f"{OWN}{key}" for key in _OF_CHART if recipe.pop(key, None) is not None]
    logs.info("values file: the launcher reads its recipe only", unread=",".join(unread))
    return {key: CHOICES[key][0] for key in ("backend", "task")} | recipe

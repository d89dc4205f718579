"""Changes since a run was installed or last started, or another version of the chart."""

import hashlib
import re
from collections.abc import Iterator
from importlib import metadata

import yaml

from launchers import version
from launchers.config import recipe
from launchers.config.recipe import Recipe
from launchers.exits import Exit, LaunchError
from launchers.gang.protocol import shared_digest
from scripts.doctor.api import Object
from scripts.observe.view import View

RECIPE, LAUNCHERS = "checksum/recipe", "checksum/launchers"
"""Annotations of the pods (`chart/charts/library/templates/pod/_annotations.tpl`)."""
CHART = re.compile(r"megatron-dpo-(?P<version>\d.*)")
"""Label `helm.sh/chart`."""


def changes(view: View) -> list[str]:
    """Return what differs between the installed objects and what the run's files were made with.

    ``view``: the run; its ConfigMap is in the snapshot if there is something to compare.
    """
    own = metadata.version(version.DISTRIBUTION)
    labels = (view.jobset.get("metadata") or {}).get("labels") or {}
    found = CHART.fullmatch(str(labels.get("helm.sh/chart") or ""))
    if found and version.of_wheel(found["version"]) != own:
        return [
            f"the run was installed with chart {found['version']}, and this command is of {own}: "
            "what only one of them knows is not shown"
        ]
    text = recipe_text(view)
    return list(_of_recipe(view, text)) if text is not None else []


def recipe_text(view: View) -> str | None:
    """Return the installed recipe.yaml; None if it was not read."""
    answer = view.snapshot.answer("get configmaps")
    found = (answer.content.get("data") or {}).get("recipe.yaml") if answer.found else None
    return None if found is None else str(found)


def _of_recipe(view: View, text: str) -> Iterator[str]:
    pod: Object = (view.gang_pod.get("metadata") or {}).get("annotations") or {}
    if RECIPE in pod and hashlib.sha256(text.strip().encode()).hexdigest() != pod[RECIPE]:
        yield (
            f"ConfigMap {config_map_name(view.run)} was replaced after the installation: the next "
            "start takes a recipe that the chart has not checked"
        )
    try:
        installed = recipe.parse(yaml.safe_load(text))
    except (LaunchError, yaml.YAMLError):
        yield f"ConfigMap {config_map_name(view.run)} holds no recipe"
        return
    yield from _since_the_last_start(view, installed, str(pod.get(LAUNCHERS) or ""))


def _since_the_last_start(view: View, installed: Recipe, launcher: str) -> Iterator[str]:
    """Compare an installed recipe with the digests that the run's last start has written."""
    assert view.files is not None
    trained = view.files.inputs.get("recipe")
    if view.files.newest and trained and trained != installed.identity:
        yield (
            f"the checkpoints are of another recipe than the installed one, so the next start ends "
            f"with exit code {int(Exit.CONFIG)} (run-changed): install it under another name, or "
            "the former values again"
        )
    elif launcher and view.files.progress.get("digest") != shared_digest(launcher, installed):
        yield (
            "the installed recipe or launcher is not that of the last start: plan and figures are "
            "those of before"
        )


def config_map_name(run: str) -> str:
    """Return the name of a run's ConfigMap (`chart/charts/library/templates/lib/_names.tpl`)."""
    return f"{run}-launchers"

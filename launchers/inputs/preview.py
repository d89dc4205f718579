"""The model's ``config.json`` before the model: one small file instead of tens of gigabytes.

What needs the model's sizes is refused within seconds of the start, not after the download. When
the file can't be had, nothing is refused: the download stage reports why, and the rules are judged
after it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.sources import Source
from launchers.exits import Exit, LaunchError
from launchers.hub.fetch import client_for
from launchers.inputs.paths import clone_path
from launchers.plan.model_config import Shape, parse
from launchers.system.threads import in_thread

NAME = "config.json"
PATIENCE = 8.0
"""Seconds for the hub's answer: imports before it and the refusal after it fit into 15."""
_LARGEST = 4 * 1024**2
"""Bytes of a config.json that is still believed to be one."""


def shape(settings: Settings, recipe: Recipe, *, may_ask: bool = True) -> Shape | None:
    """Return the model's sizes; None while they are not known.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe; only models of the Megatron backend are looked at.
        may_ask: whether a hub may be asked; else only what is on this node.
    """
    if recipe.backend != "megatron":
        return None
    model = sources.parse(recipe.model, "recipe.model")
    try:
        text = _local(settings, model) or (_from_hub(model) if may_ask else "")
        found = parse(_document(text)) if text else None
    except LaunchError as error:
        logs.warning("model not looked at", why=error.cause)
        return None
    if found is None:
        logs.warning("model not looked at", why=f"no {NAME} of {model.text} yet")
        return None
    logs.info("model seen", layers=found.layers, experts=found.experts, parameters=found.parameters)
    return found


def _document(text: str) -> Mapping[str, object]:
    """Parse the file; one that is none says nothing."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _local(settings: Settings, model: Source) -> str:
    """Read the file where the model lies after the download, or lies already."""
    clone = clone_path(settings.code, settings.work)
    folders = [sources.local(model, "model", settings.work, clone)]
    if model.hub == "file":
        folders.append(Path(model.repo))
    for folder in folders:
        try:
            return (folder / NAME).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return ""


def _from_hub(model: Source) -> str:
    """Fetch the file from the model's hub; empty when there is none.

    Raises:
        LaunchError: why it can't be had.
    """
    if model.hub not in ("hf", "ms"):
        return ""
    try:
        return in_thread(lambda: _fetch(model), PATIENCE)
    except TimeoutError:
        cause = f"no answer from the hub in {PATIENCE:.0f} s"
        raise LaunchError(Exit.UNAVAILABLE, cause, "the download asks again") from None


def _fetch(model: Source) -> str:
    """Ask once: an outage is for the download stage, which is patient."""
    client = client_for(model, "model")
    path = f"{model.path}/{NAME}".lstrip("/")
    try:
        listing = client.list()
        file = next((f for f in listing.files if f.path == path), None)
        if file is None or file.size > _LARGEST:
            return ""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            client.fetch(file, listing.commit, Path(folder), from_scratch=False)
            return (Path(folder) / path).read_text(encoding="utf-8")
    except Exception as error:
        failure = client.translate(error)
        unknown = LaunchError(Exit.UNAVAILABLE, type(error).__name__, "the download asks again")
        raise (unknown if failure is None else failure.error) from error

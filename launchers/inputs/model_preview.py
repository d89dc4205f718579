"""The model's sizes before the download: its ``config.json``, one small file.

A recipe that the model's sizes rule out is refused within seconds of the start, not after a
download of tens of gigabytes. When the file is not available, nothing is refused: the download
stage reports the cause, and the rules are judged after it.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.config import sources
from launchers.config.recipe import Recipe
from launchers.config.sources import Source
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import Inputs
from launchers.hub.fetch import client_for
from launchers.inputs.model_files import unsuitable
from launchers.inputs.model_weights import refusal
from launchers.inputs.models.installed_class import NAME
from launchers.plan.model_config import ModelConfig, parse_config
from launchers.system.threads import in_thread

HUB_TIMEOUT_SECONDS = 8.0
"""Timeout of the hub's answer: with the imports before and the refusal after it 15 s at most."""
_MAX_BYTES = 4 * 1024**2
"""A larger file is not a config.json."""


def model_config(recipe: Recipe, inputs: Inputs, *, may_ask: bool = True) -> ModelConfig | None:
    """Return the model's sizes; None when they are not known yet.

    Args:
        recipe: the run's recipe; only the Megatron backend needs the sizes.
        inputs: the paths of its inputs.
        may_ask: whether the model's hub may be asked; otherwise only files of this node are read.

    Raises:
        LaunchError: DATA for weights that cannot be trained, before they are downloaded.
    """
    if recipe.backend != "megatron":
        return None
    model = sources.parse_source(recipe.model, "recipe.model")
    document: Mapping[str, object] = {}
    found, why = None, f"no {NAME} of {model.text} yet"
    try:
        if text := _local(inputs, model) or (_from_hub(model) if may_ask else ""):
            document = _document(text)
            found = parse_config(document)
    except LaunchError as error:
        why = error.cause
    if document and (wrong := unsuitable(document, recipe)):
        raise refusal(*wrong)
    if found is None:
        logs.warning("model not checked yet", why=why)
        return None
    logs.info("model seen", layers=found.layers, experts=found.experts, parameters=found.parameters)
    return found


def _document(text: str) -> Mapping[str, object]:
    """Parse the file; empty when it is not a JSON map."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _local(inputs: Inputs, model: Source) -> str:
    """Read the file at the model's place after the download, or at its source; otherwise empty."""
    folders = [inputs.model]
    if model.hub == "file":
        folders.append(Path(model.repo))
    for folder in folders:
        try:
            return (folder / NAME).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return ""


def _from_hub(model: Source) -> str:
    """Fetch the file from the model's hub; empty when the hub does not have it."""
    if model.hub not in ("hf", "ms"):
        return ""
    try:
        return in_thread(lambda: _fetch(model), HUB_TIMEOUT_SECONDS)
    except TimeoutError:
        cause = f"the hub did not answer within {HUB_TIMEOUT_SECONDS:.0f} s"
        raise LaunchError(
            Exit.UNAVAILABLE, cause, "the download stage retries", id="hub-no-answer"
        ) from None


def _fetch(model: Source) -> str:
    """Ask once: the download stage retries, this check does not."""
    client = client_for(model, "model")
    path = f"{model.path}/{NAME}".lstrip("/")
    try:
        listing = client.list()
        file = next((f for f in listing.files if f.path == path), None)
        if file is None or file.size > _MAX_BYTES:
            return ""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            client.fetch(file, listing.commit, Path(folder), from_scratch=False)
            return (Path(folder) / path).read_text(encoding="utf-8")
    except Exception as error:
        failure = client.translate(error)
        unknown = LaunchError(
            Exit.UNAVAILABLE, type(error).__name__, "the download stage retries", id="hub-error"
        )
        raise (unknown if failure is None else failure.error) from error

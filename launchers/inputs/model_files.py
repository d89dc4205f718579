"""The check that a folder is a model in Hugging Face format, by its ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path

from launchers.config import sources
from launchers.exits import Exit, LaunchError
from launchers.storage import manifest
from launchers.system import lookup

NAME = "config.json"
"""The file of a model's architecture and sizes."""


def check_folder(model: Path, name: str) -> None:
    """Refuse a folder that no trainer can load (transformers: ``AutoConfig.from_pretrained``).

    Args:
        model: the model's folder, which exists.
        name: its source, for the message.

    Raises:
        LaunchError: DATA when config.json is missing, not a JSON map, or has no model_type.
    """
    try:
        text = lookup.text(model / NAME)
        document = None if text is None else json.loads(text)
    except ValueError as error:
        raise _refusal("model-config-json", f"{name}: {NAME} is not JSON: {error}") from None
    if text is None and lookup.is_file(model):
        raise _refusal("model-is-file", f"{name} is a file, not a folder with a {NAME}")
    if text is None:
        raise _refusal("model-config-missing", f"{name} has no {NAME}")
    if not isinstance(document, dict) or "model_type" not in document:
        raise _refusal("model-type-missing", f"{name}: {NAME} has no model_type")


def check_local_source(text: str) -> None:
    """Check a ``file://`` model before its tens of gigabytes are copied.

    Args:
        text: the recipe's model. A folder that is missing or empty is left to the download stage.

    Raises:
        LaunchError: as ``check_folder``.
    """
    model = sources.parse_source(text, "recipe.model")
    folder = Path(model.repo)
    if model.hub == "file" and lookup.is_dir(folder) and any(manifest.files(folder)):
        check_folder(folder, text)


def _refusal(id: str, wrong: str) -> LaunchError:
    remedy = "name the folder with config.json, tokenizer and safetensors of one model"
    return LaunchError(Exit.DATA, f"recipe.model: {wrong}", remedy, id=id)

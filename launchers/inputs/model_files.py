"""Whether a folder is a model in Hugging Face format, as far as its ``config.json`` tells."""

from __future__ import annotations

import json
from pathlib import Path

from launchers.config import sources
from launchers.exits import Exit, LaunchError
from launchers.storage import manifest

NAME = "config.json"


def check(model: Path, name: str) -> None:
    """Refuse a folder that no trainer can load (transformers: ``AutoConfig.from_pretrained``).

    Args:
        model: the model's folder, which is there.
        name: its source, for the message.

    Raises:
        LaunchError: DATA when config.json is missing or no JSON map.
    """
    try:
        document = json.loads((model / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _refusal(f"{name} has no {NAME}") from None
    except NotADirectoryError:
        raise _refusal(f"{name} is a file, not a folder with a {NAME}") from None
    except ValueError as error:
        raise _refusal(f"{name}: {NAME} is no JSON: {error}") from None
    if not isinstance(document, dict) or "model_type" not in document:
        raise _refusal(f"{name}: {NAME} has no model_type")


def check_early(text: str) -> None:
    """Check a model of files that are here before its tens of gigabytes are copied.

    Args:
        text: the recipe's model; what is not here, or empty, the download stage refuses.

    Raises:
        LaunchError: as ``check``.
    """
    model = sources.parse(text, "recipe.model")
    folder = Path(model.repo)
    if model.hub == "file" and folder.is_dir() and any(manifest.files(folder)):
        check(folder, text)


def _refusal(wrong: str) -> LaunchError:
    remedy = "name the folder with config.json, tokenizer and safetensors of one model"
    return LaunchError(Exit.DATA, f"recipe.model: {wrong}", remedy)

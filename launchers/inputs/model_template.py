"""The check that a model has a tokenizer, and that ms-swift can choose its template.

Source: ``swift/model/model_meta.py`` (``get_model_info_meta``) and ``swift/template/register.py``
(``get_template_meta``): a model whose folder has no name that ms-swift knows is known by its
architecture, which several model types may share, and a model type may have several templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launchers.config.recipe import Recipe
from launchers.exits import LaunchError
from launchers.inputs.model_weights import is_pointer, refusal
from launchers.system import lookup
from launchers.system.atomic_file import read_object
from launchers.system.ms_swift import swift_folder
from launchers.upstream.templates import TEMPLATES, TYPES, UNPACKED_ARCHITECTURES

_TOKENIZER = re.compile(
    r"tokenizer\.json|[\w.]+\.model(?:\.v\d.*)?|tekken\.json|\w*vocab\w*\.txt|\w+\.tiktoken"
    r"|(?:tokenization_\w+|\w+_tokenizer)\.py"
)
"""Files that alone make a tokenizer; ``vocab.json`` needs ``merges.txt``."""
_JSON = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_REGISTRARS = ("external_plugins", "custom_register_path")
"""Flags by which a user's code may register models and templates."""


def check(folder: Path, name: str, config: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuse a model without tokenizer, or one whose template ms-swift cannot choose.

    Args:
        folder: of the model.
        name: its source, for the message.
        config: its config.json.
        recipe: the run's recipe.

    Raises:
        LaunchError: DATA, naming what to write; IO if the storage does not answer.
    """
    listed = lookup.entries(folder)
    pair = {"vocab.json", "merges.txt"} <= {*listed}
    if not pair and not any(map(_TOKENIZER.fullmatch, listed)):
        says = f"{name} has no tokenizer (tokenizer.json, tokenizer.model, vocab.json)"
        raise refusal("model-tokenizer-missing", says, "copy the tokenizer of the model to it")
    for file in filter(listed.__contains__, _JSON):
        _parse(folder / file, name)
    for file in filter(_TOKENIZER.fullmatch, listed):
        if is_pointer(folder / file):
            raise _damaged(name, file, "a git-lfs pointer")
    if wrong := _template(folder, config, recipe):
        id, says, remedy = wrong
        raise refusal(id, f"{name}: {says}", remedy)
    if recipe.arg("template_backend") == "jinja" and not _has_jinja(folder, listed):
        says = f"{name} has no chat template, which template_backend: jinja needs"
        remedy = "add chat_template.jinja, or set recipe.args.template and remove template_backend"
        raise refusal("model-chat-template", says, remedy)


def _parse(path: Path, name: str) -> None:
    text = lookup.text(path)
    try:
        json.loads("{}" if text is None else text)
    except (ValueError, RecursionError) as error:
        kind = "a git-lfs pointer" if is_pointer(path) else f"not JSON: {error}"
        raise _damaged(name, path.name, kind) from None


def _damaged(name: str, file: str, kind: str) -> LaunchError:
    says = f"{name}: {file} is {kind}"
    return refusal("model-tokenizer-damaged", says, "copy or download it again (git lfs pull)")


def _has_jinja(folder: Path, listed: Mapping[str, bool]) -> bool:
    named = {"chat_template.jinja", "chat_template.json"} & {*listed}
    return bool(named or read_object(folder / "tokenizer_config.json").get("chat_template"))


def _template(
    folder: Path, config: Mapping[str, Any], recipe: Recipe
) -> tuple[str, str, str] | None:
    """Return id, cause and remedy if ms-swift cannot choose model type or template."""
    saved = read_object(folder / "args.json")  # of a checkpoint of ms-swift, which reads it too
    kind, template = (
        recipe.arg(key) or str(saved.get(key) or "") for key in ("model_type", "template")
    )
    named = config.get("architectures") or [""]
    architecture = str(named[0])
    packs = any(map(recipe.is_on, ("packing", "padding_free")))  # on Megatron a rule judges it
    if packs and not template and architecture in UNPACKED_ARCHITECTURES:
        says = f"ms-swift's template of {architecture} supports neither packing nor padding_free"
        return "template-packing", says, "remove recipe.args.packing and padding_free"
    if any(key in recipe.args for key in _REGISTRARS) or _knows(folder.name, architecture):
        return None
    types = [kind] if kind else TYPES.get(architecture, [])
    if len(types) > 1:
        says = f"ms-swift has several model types for {architecture}"
        choices = f"write recipe.args.model_type: one of {', '.join(types)}"
        return "model-type-ambiguous", says, f"{choices}; and recipe.args.template"
    if not template and not types:
        says = f"ms-swift has no template for {architecture or 'a model without architectures'}"
        remedy = "write recipe.args.template (and model_type); template: dummy adds no role markers"
        return "model-template-unknown", says, remedy
    choices = "" if template else ", ".join(TEMPLATES.get(types[0], [])[1:] and TEMPLATES[types[0]])
    if choices:
        says = f"the folder's name does not tell ms-swift the template of {types[0]}"
        remedy = f"write recipe.args.template: one of {choices}"
        return "model-template-ambiguous", says, remedy
    return None


def _knows(name: str, architecture: str) -> bool:
    """Return whether ms-swift knows a model by its folder's name; True if that is not known.

    A release that knows an architecture which the table lacks is newer than the table.
    """
    try:
        folder = swift_folder() / "model" / "models"
    except LaunchError:
        return True
    text = "".join(lookup.text(file) or "" for file in lookup.matching(folder, "*.py"))
    plain, is_newer = re.escape(name.replace("___", ".")), f"{architecture}'" in text
    found = re.search(rf"/{plain}['\"]", text, re.IGNORECASE)
    return not text or found is not None or (is_newer and architecture not in TYPES)

"""The check that a model has a tokenizer, and that ms-swift can choose its template.

Source: ``swift/model/model_meta.py`` (``get_model_info_meta``) and ``swift/template/register.py``
(``get_template_meta``): a model whose folder has no name that ms-swift knows is known by its
architecture, which several model types may share, and a model type may have several templates.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.exits import LaunchError
from launchers.inputs.model_weights import document, is_pointer, refusal
from launchers.inputs.models import installed_class
from launchers.plan.model_config import text_config
from launchers.system import lookup
from launchers.system.atomic_file import read_object
from launchers.system.ms_swift import package_folder, swift_folder
from launchers.upstream.templates import (
    NOT_ON_MEGATRON,
    TEMPLATES,
    TYPES,
    UNPACKED_ARCHITECTURES,
)

_TOKENIZER = re.compile(
    r"tokenizer\.json|[\w.]+\.model(?:\.v\d.*)?|tekken\.json|\w*vocab\w*\.txt|\w+\.tiktoken"
    r"|(?:tokenization_\w+|\w+_tokenizer)\.py"
)
"""Files that alone make a tokenizer; ``vocab.json`` needs ``merges.txt``."""
_JSON = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.json")
_MANY = 10
"""A model's own tokenizer has less than this part of its tokens beyond the embeddings."""
_AGAIN = "copy or download it again (git lfs pull)"
_REGISTRARS = ("external_plugins", "custom_register_path")


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
    files = [each for each in listed if _TOKENIZER.fullmatch(each)]
    if not pair and not files:
        says = f"{name} has no tokenizer (tokenizer.json, tokenizer.model, vocab.json)"
        raise refusal("model-tokenizer-missing", says, "copy the tokenizer of the model to it")
    held = {file: _parse(folder / file, name) for file in _JSON if file in listed}
    for file in files or ("vocab.json", "merges.txt"):
        if is_pointer(folder / file):
            raise _damaged(name, file, "a git-lfs pointer")
        if file.endswith(".model") and lookup.begin(folder / file, 1) == b"":
            raise _damaged(name, file, "empty")
    _class(name, held.get(_JSON[0], {}), listed)
    if "new_special_tokens" not in recipe.args:  # ms-swift adds rows for them
        _rows(name, held, config)
    if wrong := _template(folder, config, recipe):
        id, says, remedy = wrong
        raise refusal(id, f"{name}: {says}", remedy)
    if recipe.arg("template_backend") == "jinja" and not _has_jinja(folder, listed):
        says = f"{name} has no chat template, which template_backend: jinja needs"
        remedy = "add chat_template.jinja, or set recipe.args.template and remove template_backend"
        raise refusal("model-chat-template", says, remedy)


def _parse(path: Path, name: str) -> Mapping[str, Any]:
    found = document(path, name, "model-tokenizer-damaged", _AGAIN)
    wanted = {"model"} if path.name == "tokenizer.json" else set()
    if not isinstance(found, dict) or not wanted <= {*found}:
        kind = "not a map" + (" with a model" if wanted else "")
        raise _damaged(name, path.name, kind)
    return found


def _class(name: str, settings: Mapping[str, Any], listed: Collection[str]) -> None:
    """Judge the class of the tokenizer; any unknown one reads tokenizer.json.

    Source: transformers ``models/auto/tokenization_auto.py``: ``from_pretrained``.
    """
    kind = settings.get("tokenizer_class")
    if kind is not None and not isinstance(kind, str):
        raise _damaged(name, _JSON[0], "not a map with a text as tokenizer_class")
    if not kind or "auto_map" in settings or {"tokenizer.json", "tokenizer.model"} & {*listed}:
        return
    try:
        known = _source(package_folder("transformers") / "models/auto")
    except LaunchError:
        return
    if known and not re.search(
        rf"['\"]{re.escape(kind.removesuffix('Fast'))}(?:Fast)?['\"]", known
    ):
        says = f"{name}: the image's transformers has no tokenizer_class {kind!r}"
        remedy = "add the tokenizer.json of the model, or write the class of its tokenizer"
        raise refusal("model-tokenizer-class", says, remedy)


def _rows(name: str, held: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> None:
    """Judge tokens whose number is beyond the embeddings: a row with one ends training.

    Published models have some that no text contains (Gemma 3's image token), so those are a warning
    unless they end or fill rows, or are many: the tokenizer is another model's.
    """
    size, made = text_config(config).get("vocab_size"), held.get("tokenizer.json", {})
    words = made.get("model", {})
    words = words.get("vocab") if isinstance(words, dict) else None
    ids = [*words.items()] if isinstance(words, dict) else []
    added = made.get("added_tokens")
    ids += [(each.get("content"), each.get("id")) for each in added or [] if isinstance(each, dict)]
    far = [word for word, id in ids if isinstance(size, int) and isinstance(id, int) and id >= size]
    if not far:
        return
    settings = held.get("tokenizer_config.json", {})
    named = [settings.get(key) for key in ("eos_token", "pad_token", "bos_token")]
    used = {each.get("content") if isinstance(each, dict) else each for each in named}
    says = f"{len(far)} tokens have no row in the {size} of the embeddings: {', '.join(far[:3])}"
    if used & {*far} or _MANY * len(far) > int(size or 0):
        remedy = "use this model's tokenizer, or save again after resize_token_embeddings"
        raise refusal("model-tokens-beyond", f"{name}: {says}", remedy)
    logs.warning("tokens beyond the embeddings", model=name, what=says)


def _damaged(name: str, file: str, kind: str) -> LaunchError:
    return refusal("model-tokenizer-damaged", f"{name}: {file} is {kind}", _AGAIN)


def _has_jinja(folder: Path, listed: Mapping[str, bool]) -> bool:
    for file in {"chat_template.jinja", "chat_template.json"} & {*listed}:
        if (lookup.text(folder / file) or "").strip() and not is_pointer(folder / file):
            return True
    found = read_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):  # named templates; transformers takes the default one
        return any(isinstance(each, dict) and each.get("name") == "default" for each in found)
    return bool(found)


def _template(
    folder: Path, config: Mapping[str, Any], recipe: Recipe
) -> tuple[str, str, str] | None:
    """Return id, cause and remedy if ms-swift cannot choose model type or template."""
    saved = read_object(folder / "args.json")  # of a checkpoint of ms-swift, which reads it too
    kind, template = (
        recipe.arg(key) or str(saved.get(key) or "") for key in ("model_type", "template")
    )
    architecture = _architecture(config)
    packs = any(map(recipe.is_on, ("packing", "padding_free")))  # on Megatron a rule judges it
    if packs and not template and architecture in UNPACKED_ARCHITECTURES:
        says = f"ms-swift's template of {architecture} supports neither packing nor padding_free"
        return "template-packing", says, "remove recipe.args.packing and padding_free"
    if registers(recipe) or _knows(folder.name, architecture):
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


def registers(recipe: Recipe) -> bool:
    """Return whether a user's code may register models, their configs and templates."""
    return any(key in recipe.args for key in _REGISTRARS)


def off_megatron(config: Mapping[str, Any], recipe: Recipe) -> tuple[str, str, str] | None:
    """Return id, cause and remedy if mcore-bridge has no model type of the architecture.

    Source: ``swift/megatron/arguments/megatron_args.py``, after the download. A release of
    mcore-bridge that names one of the types is newer than the table.
    """
    architecture = _architecture(config)
    if (
        architecture not in NOT_ON_MEGATRON
        or registers(recipe)
        or "model_type" in recipe.args
        or recipe.arg("bridge_backend") == "megatron-bridge"
    ):
        return None
    try:
        folder = package_folder("mcore_bridge") / "model"
    except LaunchError:
        folder = Path()
    text = "".join(_source(folder / name) for name in ("gpts", "mm_gpts")) if folder.name else ""
    if any(f"'{kind}'" in text for kind in TYPES[architecture]):
        return None
    says = f"{recipe.model}: ms-swift trains {architecture} with transformers, not with Megatron"
    remedy = "set recipe.backend: transformers, with flags of its own, or use another model"
    return "model-not-on-megatron", says, remedy


def _architecture(config: Mapping[str, Any]) -> str:
    named = config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def unknown_type(config: Mapping[str, Any], recipe: Recipe) -> tuple[str, str, str] | None:
    """Return id, cause and remedy if neither the image's transformers nor ms-swift has the type."""
    kind = str(config.get("model_type"))
    if installed_class.is_own(config) or registers(recipe):
        return None
    try:
        places = (package_folder("transformers") / "models/auto", swift_folder() / "model/models")
    except LaunchError:
        return None
    known = [_source(place) for place in places]
    if not all(known) or re.search(rf"['\"]{re.escape(kind)}['\"]", "".join(known)):
        return None
    return (
        "model-type-unknown",
        f"{recipe.model}: the image's transformers has no model_type {kind!r}, and config.json "
        "names no code",
        "use an image with a newer transformers, or add its code",
    )


def _source(folder: Path) -> str:
    return "".join(lookup.text(file) or "" for file in lookup.matching(folder, "*.py"))


def _knows(name: str, architecture: str) -> bool:
    """Return whether ms-swift knows a model by its folder's name; True if that is not known.

    A release that knows an architecture which the table lacks is newer than the table.
    """
    try:
        folder = swift_folder() / "model" / "models"
    except LaunchError:
        return True
    text = _source(folder)
    plain, is_newer = re.escape(name.replace("___", ".")), f"'{architecture}'" in text
    found = re.search(rf"/{plain}['\"]", text, re.IGNORECASE)
    return (
        not text
        or found is not None
        or (is_newer and bool(architecture) and architecture not in TYPES)
    )

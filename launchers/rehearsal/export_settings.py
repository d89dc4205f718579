"""Compare the JSON files of an export, which servers read, with those of the model before it."""

from functools import cache
from pathlib import Path
from typing import Any

from launchers.system.atomic_file import read_object

document = cache(read_object)
"""Each file is read once: nothing changes while a process reads an export."""
SETTINGS = {
    "config.json": ("max_position_embeddings",),
    "tokenizer_config.json": ("pad_token", "add_bos_token"),
}


def unended(export: Path, model: Path) -> list[str]:
    """Return a problem if no token of the model ends a text of its export any more.

    One of several may be gone, and training may give the tokenizer another.
    """
    before, now = ends(model), ends(export)
    token, same = (document(f / "tokenizer_config.json").get("eos_token") for f in (export, model))
    if not before or before & now or token != same:
        return []
    return [f"texts no longer end at the tokens {sorted(before)} (eos_token_id)"]


def other_settings(export: Path, model: Path) -> list[str]:
    """Return a problem for each setting that both name with another value: servers use it.

    ms-swift names a pad token where the model has none, and scales the rotary embedding, and with
    it the positions, where the recipe says so (``swift/arguments/base_args/model_args.py``).
    """
    found = []
    for file, keys in SETTINGS.items():
        now, before = (document(f / file) for f in (export, model))
        rope = now.get("rope_parameters") or now.get("rope_scaling") or {}
        for key in () if "factor" in rope else keys:
            new, old = (
                each["content"] if isinstance(each := held.get(key), dict) else each
                for held in (now, before)
            )
            if None not in (new, old) and new != old:
                found.append(f"{file} says {key}: {new}, and the model's {old}")
    return found


def ends(folder: Path) -> set[Any]:
    """Return the tokens that end a generated text: those of config.json are the default."""
    found = [document(folder / f"{name}.json") for name in ("generation_config", "config")]
    given = [ids for config in found if (ids := config.get("eos_token_id")) is not None]
    first = given[0] if given else []
    return {*first} if isinstance(first, list) else {first}


def unserved(loaded: str, export: Path, model: Path) -> str:
    """Return a problem if a server would look for a class that neither loads nor was the model's.

    Models that had their own code may name another class than the one that transformers has now.
    """
    named, before = (document(f / "config.json").get("architectures") for f in (export, model))
    if not named or loaded in named or named == before:
        return ""
    return f"config.json names {', '.join(named)}, and transformers loads {loaded}"

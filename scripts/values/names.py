"""The key or flag that an unknown key of the values was meant to be."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from launchers.rules.table import SWIFT
from launchers.suggestion import nearest
from launchers.yaml_file import read_yaml
from scripts.values.flags import releases, table_of

RENAMES = Path(__file__).with_name("renames.yaml")
LISTED = 20
"""Keys that a remedy lists at most."""


@dataclass(kw_only=True)
class Meant:
    """What a user may mean by a word."""

    word: str
    paths: list[str] = field(default_factory=list)
    """Of keys, and of flags below ``recipe.args``."""
    says: str = ""
    """Of a flag that is renamed or set by the launcher."""


def snake(word: str) -> str:
    """Return a word as flags are written.

    >>> snake("gpusPerNode"), snake("existing-claim")
    ('gpus_per_node', 'existing_claim')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+", "_", word).lower()


def closest(word: str, known: Collection[str]) -> str:
    """Return the known key nearest to a word in any case and spelling; empty if none is near."""
    by_snake = {snake(each): each for each in sorted(known)}
    near = nearest(snake(word), by_snake)
    if near is not None:
        return by_snake[near]
    # short words share too few letters: the same letters, one or two more, or a beginning
    for each in sorted(known):
        is_longer = each.startswith(word[:-1]) and len(each) <= len(word) + 2
        is_mixed = sorted(each) == sorted(word)
        is_begun = each.startswith(word) and len(word) > 3
        if len(word) > 2 and (is_longer or is_mixed or is_begun):
            return each
    return ""


@cache
def renames() -> Mapping[str, Mapping[str, str]]:
    """Return ``keys`` and ``variables`` of other charts and launchers, with what to write here."""
    found: Mapping[str, Mapping[str, str]] = read_yaml(RENAMES)
    return found


def elsewhere(level: str, key: str) -> str:
    """Return what to write instead of a key of another chart; empty if it is none.

    In a map a key of the first level has the same meaning, if its remedy is in that map.

    >>> elsewhere("", "imagePullSecrets"), elsewhere("podSpec", "image"), elsewhere("", "nodez")
    ('use image.pullSecrets', 'use image', '')
    >>> elsewhere("kueue", "localQueue"), elsewhere("stages", "localQueue")
    ('use kueue.queue', '')
    """
    known = {_plain(path): says for path, says in renames()["keys"].items()}
    same = known.get(_plain(key), "")
    here = same if same.startswith(f"use {level}.") else ""
    return known.get(_plain(f"{level}{key}"), here)


def of_owned(path: str, keys: Collection[str]) -> str:
    """Return what to write instead of a field that the chart sets.

    >>> of_owned("podSpec.containers[0].env", ["affinity"]), of_owned("podSpec.os", ["affinity"])
    ('use extraEnv', 'remove it')
    """
    last = path.rpartition(".")[2]
    same = f"use {last}" if last in keys else "remove it"
    return renames()["owned"].get(re.sub(r"\[\d+\]", "", path), same)


def remedy(
    level: str, key: str, own: Mapping[str, Collection[str]], values: Mapping[str, Any]
) -> str:
    """Return what to write instead of a key that no map of the chart has.

    A key of another chart has its own words, and one that differs from a path in its dots alone is
    that path's (``workspaceSubPath``). Otherwise it is a name that differs in case, - and _
    only, or the nearest of all keys, flags and renames; those of the same map come first, and in
    maps but ``recipe`` no flag is near by chance.
    ``values`` are merged: their recipe selects the flags.
    """
    if known := elsewhere(level, key):
        return known
    paths = [f"{map}.{each}".lstrip(".") for map, keys in own.items() for each in keys]
    if same := [path for path in paths if _plain(path) == _plain(f"{level}{key}")]:
        return f"use {same[0]}"
    meanings, keys = _meanings(own, values), own[level]
    meant, verb = meanings.get(_plain(key)), "use"
    if meant is None:
        words = {snake(each) for each in keys}
        if level in ("", "recipe"):
            words |= {each.word for each in meanings.values()}
        near = nearest(snake(key), words) or closest(key, keys)
        meant, verb = meanings.get(_plain(near)), "the nearest is"
    paths = meant.paths if meant else []
    same = [path for path in paths if path.rpartition(".")[0] == level]
    if same:
        return f"{verb} {same[0]}"
    if paths and len(paths) <= (2 if level else 1):
        return f"{verb} {' or '.join(paths)}"
    if meant and not paths and level in ("", "recipe"):
        return f"if you mean the flag {meant.word} of recipe.args: {meant.says}"
    if level and len(keys) <= LISTED:
        return f"remove it, or use one of {', '.join(keys)}"
    return "remove it (chart/VALUES.md has a table of all keys)"


def _plain(word: str) -> str:
    """Return a name as it is compared: without case, - and _."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _meanings(own: Mapping[str, Collection[str]], values: Mapping[str, Any]) -> dict[str, Meant]:
    """Return every name that a user may mean, by its plain form."""
    found: dict[str, Meant] = {}

    def meant(word: str) -> Meant:
        return found.setdefault(_plain(word), Meant(word=word))

    for level, keys in own.items():
        for key in keys:
            meant(snake(key)).paths.append(f"{level}.{key}".lstrip("."))
    given = values.get("recipe")
    recipe = given if isinstance(given, Mapping) else {}
    version = recipe.get("swiftVersion")
    backends = table_of(version if version in releases() else SWIFT)["backends"]
    backend = backends.get(str(recipe.get("backend")), backends["megatron"])
    flags = backend["flags"]
    for flag in [*flags["common"], *flags.get(str(recipe.get("task", "rlhf")), [])]:
        if flag in backend["launcherOwned"]:
            meant(flag).says = "remove it (the launcher sets it)"
        else:
            meant(flag).paths.append(f"recipe.args.{flag}")
    for flag, advice in backend["renamed"].items():
        meant(flag).says = advice
    return found

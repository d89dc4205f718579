"""Read the statement of an export, strictly: what is not as the launcher writes it is refused."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from launchers.stages.statement import BUILD, NAME, PREDICATE, TYPE
from launchers.state.json_text import part
from launchers.system import lookup
from scripts.problem import Problem

_DIGEST = re.compile(r"[0-9a-f]{64}")
LARGEST = 64 << 20
"""Bytes of a statement that are read; one of 10,000 files has 2 MB."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement that is well formed."""

    text: bytes
    """As it is in the file: what a signature covers."""
    subjects: Mapping[str, str]
    """SHA-256 by the path of the file."""
    predicate: Mapping[str, Any]


def read(folder: Path) -> Statement:
    """Return the statement of an export.

    Raises:
        Problem: the folder has none, or none that is well formed.
    """
    path = folder / NAME
    if not lookup.is_dir(folder):
        raise Problem(f"{folder} is not a folder; give the folder of an export, runs/RUN/export")
    if lookup.is_link(path) or not lookup.is_file(path):
        raise Problem(
            f"{folder} has no {NAME}; give the folder of an export, runs/RUN/export. Exports of "
            "earlier releases have none: export the run's checkpoint again"
        )
    text = lookup.begin(path, LARGEST + 1) or b""
    if len(text) > LARGEST:
        raise Problem(f"{path} is larger than {LARGEST} bytes, so no launcher has written it")
    return parse(text, str(path))


def parse(text: bytes, where: str) -> Statement:
    """Return the statement in a text.

    Raises:
        Problem: it is not well formed.
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique)
        if not isinstance(found, dict):
            raise ValueError("it is not an object")
        for key, wanted in (("_type", TYPE), ("predicateType", PREDICATE)):
            if found.get(key) != wanted:
                raise ValueError(f"{key} is {found.get(key)!r}, not {wanted}")
        if unknown := found.keys() - {"_type", "predicateType", "subject", "predicate"}:
            raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
        predicate = found.get("predicate")
        built = part(part(found, "predicate"), "buildDefinition").get("buildType")
        if not isinstance(predicate, dict) or built != BUILD:
            raise ValueError(f"buildType is {built!r}, not {BUILD}")
        return Statement(text=text, subjects=_subjects(found.get("subject")), predicate=predicate)
    except (ValueError, RecursionError) as error:  # also of JSON and UTF-8
        raise Problem(f"{where}: {error}; restore it from where the export came from") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: two readers could read two statements."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in an object")
    return found


def _subjects(given: object) -> dict[str, str]:
    if not isinstance(given, list) or not given:
        raise ValueError("subject lists no file")
    found: dict[str, str] = {}
    for each in given:
        name = each.get("name") if isinstance(each, dict) else None
        digest = part(each, "digest").get("sha256") if isinstance(each, dict) else None
        if not isinstance(name, str) or not _is_inside(name):
            raise ValueError(f"subject {name!r} is not the path of a file in the export")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"subject {name}: digest.sha256 is not a SHA-256")
        if name in found:
            raise ValueError(f"subject {name} is listed twice")
        found[name] = digest
    return found


def _is_inside(name: str) -> bool:
    r"""Return whether a path leads to a file in the folder it is relative to.

    >>> [_is_inside(name) for name in ("a/b.json", "../a", "/a", "a/../b", "a\\b", "")]
    [True, False, False, False, False, False]
    """
    path = PurePosixPath(name)
    is_plain = bool(name) and str(path) == name and "\\" not in name and "\0" not in name
    return is_plain and not path.is_absolute() and ".." not in path.parts

"""Partial folder of an output, and its rename to the final name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from launchers.config.settings import STAGES
from launchers.exits import Exit, LaunchError
from launchers.storage import disk, marker
from launchers.system import lookup
from launchers.system.atomic_file import flush, replace

RECORD = ".making.json"
"""Inputs of a partial output, stored inside it; only equal inputs resume it."""


def partial_path(path: Path) -> Path:
    """Return the partial folder of an output.

    >>> partial_path(Path("models/m")).name
    'm.partial'
    """
    return path.with_name(f"{path.name}.partial")


def replaced(path: Path) -> Path:
    """Return the temporary name of the older output during a replacement."""
    return path.with_name(f"{path.name}.old")


def refuse_foreign(stage: str, path: Path) -> None:
    """Refuse to replace files that the launcher did not make: they may be the user's."""
    if lookup.is_dir(path) and not lookup.entries(path):
        path.rmdir()
    if lookup.exists(path) and not lookup.exists(path / marker.NAME):
        use = f"set stages.{stage}.skip: true to use it as it is, or " if stage in STAGES else ""
        raise LaunchError(
            Exit.CONFIG,
            f"{path} exists without a marker, so the launcher did not make it",
            f"{use}remove it",
            id="output-foreign",
        )


def refuse_links(partial: Path, files: Iterable[Path]) -> None:
    """Refuse folders in a partial output that lead out of it: files there are not its own.

    Args:
        partial: the partial folder.
        files: the files that are to be written, replaced or removed in it.

    Raises:
        LaunchError: CONFIG with the first such folder.
    """
    own = partial.resolve()
    for folder in sorted({file.parent for file in files}):
        if not folder.resolve().is_relative_to(own):
            raise LaunchError(
                Exit.CONFIG,
                f"{folder} leads through a symbolic link to {folder.resolve()}, outside of {own}",
                "remove the link; the files where it leads stay",
                id="output-link",
            )


def salvage(path: Path, wanted: dict[str, Any]) -> None:
    """Rename a damaged output of these inputs to a partial one, to be repaired."""
    found = marker.read(path)
    if found is not None and found.inputs == wanted:
        disk.remove(partial_path(path))
        path.rename(partial_path(path))
        flush(path.parent)  # before ``begin`` removes the marker, which shows who made it


def begin(partial: Path, wanted: dict[str, Any]) -> None:
    """Keep files of an earlier attempt with the same inputs; remove others."""
    left = marker.read(partial)
    recorded: object = None if left is None else dict(left.inputs)
    with contextlib.suppress(ValueError):
        recorded = json.loads(lookup.text(partial / RECORD) or "")
    if recorded != wanted:
        disk.remove(partial)
        partial.mkdir()
    replace(partial / RECORD, json.dumps(wanted, sort_keys=True) + "\n")
    (partial / marker.NAME).unlink(missing_ok=True)


def into_place(path: Path) -> None:
    """Rename the complete output to its final name; keep an older one until then."""
    if lookup.exists(path):
        path.rename(replaced(path))
    partial_path(path).rename(path)
    flush(path.parent)
    disk.remove(replaced(path))


def restore(path: Path) -> None:
    """Finish or undo a replacement that a kill interrupted."""
    if not lookup.exists(replaced(path)):
        return
    if lookup.exists(path):
        disk.remove(replaced(path))
    else:
        replaced(path).rename(path)

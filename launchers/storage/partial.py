"""The folder in which an output is made, and its way to the final name."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from launchers.config.settings import STAGES
from launchers.exits import Exit, LaunchError
from launchers.storage import disk, marker
from launchers.storage.checkpoint import flush, replace

RECORD = ".making.json"
"""Inputs of a partial output, inside it: it is only resumed for the same inputs."""


def of(path: Path) -> Path:
    """Return the partial folder of an output.

    >>> of(Path("models/m")).name
    'm.partial'
    """
    return path.with_name(f"{path.name}.partial")


def aside(path: Path) -> Path:
    """Return where the older output is while the newer one goes in."""
    return path.with_name(f"{path.name}.old")


def refuse_foreign(stage: str, path: Path) -> None:
    """Refuse to replace what the launcher has not made: the user may have put it there."""
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists() and not (path / marker.NAME).exists():
        use = f"write stages.{stage}.skip: true to use it as it is, or " if stage in STAGES else ""
        raise LaunchError(
            Exit.CONFIG,
            f"{path} is there without a marker: the launcher has not made it",
            f"{use}remove it",
        )


def salvage(path: Path, wanted: dict[str, Any]) -> None:
    """Turn a damaged output of these inputs back into a partial one, to be mended."""
    found = marker.read(path)
    if found is not None and found.inputs == wanted:
        disk.remove(of(path))
        path.rename(of(path))


def begin(partial: Path, wanted: dict[str, Any]) -> None:
    """Keep what an attempt with the same inputs has left, and nothing else."""
    left = marker.read(partial)
    recorded: object = None if left is None else dict(left.inputs)
    with contextlib.suppress(OSError, ValueError):
        recorded = json.loads((partial / RECORD).read_text(encoding="utf-8"))
    if recorded != wanted:
        disk.remove(partial)
        partial.mkdir()
    replace(partial / RECORD, json.dumps(wanted, sort_keys=True) + "\n")
    (partial / marker.NAME).unlink(missing_ok=True)


def into_place(path: Path) -> None:
    """Rename the complete output in; an older one goes aside first and is removed last."""
    if path.exists():
        path.rename(aside(path))
    of(path).rename(path)
    flush(path.parent)
    disk.remove(aside(path))


def restore(path: Path) -> None:
    """Undo a replacement that a kill cut in two, or finish it."""
    if not aside(path).exists():
        return
    if path.exists():
        disk.remove(aside(path))
    else:
        aside(path).rename(path)

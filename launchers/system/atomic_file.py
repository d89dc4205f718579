"""Write files atomically: to a temporary file, flushed to the disk, then renamed."""

import json
import os
from pathlib import Path
from typing import Any

from launchers.system import lookup

FOREIGN = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors in reading a JSON file of ours that is torn, or that something else has written."""


def flush(path: Path) -> None:
    """Force a file's or folder's data to the disk (``fsync``); an error names the path."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(handle)


def partial_of(path: Path, writer: str = "partial") -> Path:
    """Return the name under which ``replace`` writes; a kill may leave it."""
    return path.with_name(f".{path.name}.{writer}")


def replace(path: Path, content: str | bytes, writer: str = "partial") -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Where several may write it at once, each names itself another ``writer``.
    """
    part = partial_of(path, writer)
    with part.open("wb") as handle:
        handle.write(content if isinstance(content, bytes) else content.encode())
    flush(part)
    part.replace(path)
    flush(path.parent)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty when it is missing, or torn by another writer.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    try:
        found = json.loads(lookup.text(path) or "")
    except FOREIGN:
        return {}
    return found if isinstance(found, dict) else {}

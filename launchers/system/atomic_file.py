"""Write files atomically: to a temporary file, flushed to the disk, then renamed."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from launchers.exits import Exit, FailureClass, LaunchError
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


def known_object(path: Path, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file on which a decision depends; empty when it is missing.

    Raises:
        LaunchError: IO if the file is torn, or the storage does not answer.
    """
    try:
        text = lookup.text(path)
        found = {} if text is None else json.loads(text)
    except FOREIGN:
        raise torn(path, remedy) from None
    if not isinstance(found, dict):
        raise torn(path, remedy)
    return found


def torn(path: Path, remedy: str) -> LaunchError:
    """Return the end of a launcher that would have to guess what a file said."""
    cause = f"{socket.gethostname()}: {path} is torn, or something else has written it"
    return LaunchError(Exit.IO, cause, remedy, id="file-torn", failure_class=FailureClass.STORAGE)


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

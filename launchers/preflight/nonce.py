"""Rank 0's word on the workspace: a node that reads it shares the workspace."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from launchers.storage.checkpoint import replace

NAME = "nonce"
PATIENCE = 60.0
"""Seconds in which rank 0's file must appear: NFS caches that a file is missing for up to 60."""


def write(folder: Path) -> str:
    """Write a new word into a folder, and return it."""
    word = secrets.token_hex(8)
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / NAME, word + "\n")
    return word


def read(path: Path) -> str:
    """Read rank 0's nonce as soon as this node sees it; what went wrong when it does not."""
    stop = time.monotonic() + PATIENCE
    while True:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            if time.monotonic() >= stop:
                return str(error)
        time.sleep(0.5)

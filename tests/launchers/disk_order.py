"""Record the order of writes and flushes, for tests of the state after a power failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def record_disk(monkeypatch: pytest.MonkeyPatch) -> list[str | int]:
    """Record from now on, in order: the inode of what is flushed, the new name of what is renamed.

    Flushes are recorded once they are done, renames before.
    """
    order: list[str | int] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def flushed(handle: int) -> None:
        fsync(handle)
        order.append(os.fstat(handle).st_ino)

    def replaced(path: Path, target: Path) -> Path:
        order.append(target.name)
        return replace(path, target)

    def renamed(path: Path, target: Path) -> Path:
        order.append(target.name)
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(Path, "rename", renamed)
    return order

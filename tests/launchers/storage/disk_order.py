"""Record of flushes and renames, for tests of power loss."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def record_disk(monkeypatch: pytest.MonkeyPatch) -> list[str | int]:
    """Record, in order, the inode of each flushed file and the new name of each renamed one.

    A flush is recorded after it returns, a rename before it starts.
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

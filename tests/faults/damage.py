"""Damage to the newest checkpoint of a run, as faults of storage and interrupted work leave it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from launchers.storage import checkpoint


def apply(kind: str, checkpoints: Path, chance: random.Random) -> None:
    """Damage the newest complete checkpoint."""
    found = checkpoint.newest(checkpoints)
    assert found is not None, "the run has no complete checkpoint"
    KINDS[kind](found.path, chance)


def _file(folder: Path, chance: random.Random) -> Path:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size > 2]
    return chance.choice([p for p in files if p.name != checkpoint.COMPLETE])


def flip(folder: Path, chance: random.Random) -> None:
    """Flip one bit of one file."""
    path = _file(folder, chance)
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def zero(folder: Path, chance: random.Random) -> None:
    """Replace a file by zeros of the same length, as a lost write leaves it."""
    path = _file(folder, chance)
    path.write_bytes(bytes(path.stat().st_size))


def truncate(folder: Path, chance: random.Random) -> None:
    """Cut a file."""
    path = _file(folder, chance)
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def empty(folder: Path, chance: random.Random) -> None:
    """Leave a file without content."""
    _file(folder, chance).write_bytes(b"")


def remove_file(folder: Path, chance: random.Random) -> None:
    """Remove a file, as an interrupted rotation does."""
    _file(folder, chance).unlink()


def unseal(folder: Path, chance: random.Random) -> None:
    """Remove the manifest: the save did not end."""
    (folder / checkpoint.COMPLETE).unlink()


def tear_seal(folder: Path, chance: random.Random) -> None:
    """Cut the manifest."""
    path = folder / checkpoint.COMPLETE
    path.write_text(path.read_text()[: chance.randrange(1, path.stat().st_size - 4)])


def foreign_step(folder: Path, chance: random.Random) -> None:
    """Give it the manifest of another step."""
    path = folder / checkpoint.COMPLETE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 3}))


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip,
    "zero": zero,
    "truncate": truncate,
    "empty": empty,
    "remove-file": remove_file,
    "unseal": unseal,
    "tear-seal": tear_seal,
    "foreign-step": foreign_step,
}

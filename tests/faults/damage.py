"""Damage to the newest checkpoint of a run, as faults of storage and interrupted work leave it."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from launchers.config.workspace import Workspace
from launchers.storage import checkpoint


def apply(kind: str, checkpoints: Path, chance: random.Random) -> None:
    found = checkpoint.newest(checkpoints)
    assert found is not None, "the run has no complete checkpoint"
    KINDS[kind](found.path, chance)


def _file(folder: Path, chance: random.Random) -> Path:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size > 2]
    own = (checkpoint.COMPLETE, checkpoint.SAVING)
    return chance.choice([p for p in files if p.name not in own])


def flip(folder: Path, chance: random.Random) -> None:
    path = _file(folder, chance)
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def zero(folder: Path, chance: random.Random) -> None:
    """Replace a file by zeros of the same length, as a lost write leaves it."""
    path = _file(folder, chance)
    path.write_bytes(bytes(path.stat().st_size))


def truncate(folder: Path, chance: random.Random) -> None:
    path = _file(folder, chance)
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def empty(folder: Path, chance: random.Random) -> None:
    _file(folder, chance).write_bytes(b"")


def remove_file(folder: Path, chance: random.Random) -> None:
    _file(folder, chance).unlink()


def unseal(folder: Path, chance: random.Random) -> None:
    """Remove the manifest: the save did not end."""
    (folder / checkpoint.COMPLETE).unlink()


def tear_seal(folder: Path, chance: random.Random) -> None:
    path = folder / checkpoint.COMPLETE
    path.write_text(path.read_text()[: chance.randrange(1, path.stat().st_size - 4)])


def foreign_step(folder: Path, chance: random.Random) -> None:
    path = folder / checkpoint.COMPLETE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 3}))


def foreign_run(folder: Path, chance: random.Random) -> None:
    """Add a later checkpoint, sealed by another run of the same or of another recipe."""
    step = checkpoint.step_of(folder) + 1
    with tempfile.TemporaryDirectory(dir=folder.parents[3]) as root:
        other = Workspace(root=Path(root), run="other")
        made = other.checkpoints / f"checkpoint-{step}"
        shutil.copytree(folder, made)
        inputs = json.loads(Workspace.of(folder.parent.parent).inputs.read_text())
        changed = chance.choice([{}, {"recipe": "0" * 64}])
        other.inputs.write_text(json.dumps(inputs | changed))
        (shards,) = made.glob("iter_*")
        for path in shards.iterdir():
            path.write_text("the state of the other run")
        shards.rename(made / f"iter_{step:07d}")
        checkpoint.seal(made, step)
        made.rename(folder.with_name(made.name))


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip,
    "zero": zero,
    "truncate": truncate,
    "empty": empty,
    "remove-file": remove_file,
    "unseal": unseal,
    "tear-seal": tear_seal,
    "foreign-step": foreign_step,
    "foreign-run": foreign_run,
}

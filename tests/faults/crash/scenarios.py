"""Code of the launcher that must survive a crash, and what must hold after one."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from launchers.stages import resume
from launchers.storage import checkpoint, disk, manifest, marker, node_disk, output, retention
from launchers.storage.lock import Lock
from launchers.system.atomic_file import flush, replace
from tests.faults.crash.recorder import Recording

Promises = Mapping[str, object]


class Violation(Exception):
    """A promise does not hold after a crash."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One piece of code and the check of a folder after a crash."""

    name: str
    run: Callable[[Path, Recording], None]
    check: Callable[[Path, Promises], None]


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


# Checkpoints: saves, an interrupted one, deletion of older ones, a damaged one saved again.


def content(step: int, name: str, version: int = 1) -> bytes:
    """Return the content of a file; the sizes of all steps and versions are equal."""
    return hashlib.sha256(f"{step:04d} {name} {version}".encode()).digest() * 4


SHARDS = (
    "iter/__0_0.distcp",
    "iter/__1_0.distcp",
    "iter/.metadata",
    "iter/common.pt",
    "model.safetensors",
)


def save(root: Path, step: int, version: int = 1, shards: int = len(SHARDS)) -> Path:
    """Write the files of a checkpoint as a trainer does: without a flush."""
    folder = root / f"checkpoint-{step}"
    retention.prepare(folder)
    (folder / "iter").mkdir(parents=True, exist_ok=True)
    for name in SHARDS[:shards]:
        with (folder / name).open("wb") as handle:
            handle.write(content(step, name, version)[:64])
            handle.flush()
            handle.write(content(step, name, version)[64:])
    return folder


def seal(folder: Path, step: int, record: Recording) -> None:
    for rank in (0, 1):
        checkpoint.digest_own(folder, rank)
    checkpoint.seal(folder, step)
    record.promise("step", step)


def saves_and_deletions(root: Path, record: Recording) -> None:
    """Save four checkpoints with a limit of two; the save of one more is cut."""
    for step in (2, 4):
        seal(save(root, step), step, record)
        retention.apply(root, limit=2)
    save(root, 5, shards=2)
    for step in (6, 8):
        seal(save(root, step), step, record)
        retention.apply(root, limit=1)


def whole_by_sizes(root: Path, promises: Promises) -> None:
    """Without a comparison of digests: what is sealed is whole, and the promised step is there.

    A folder that is not sealed is known to be this run's: a later rotation deletes it.
    """
    _judge(checkpoint.newest(root), promises)
    for folder in checkpoint.folders(root):
        require(not checkpoint.foreign(folder), f"{folder.name} has lost its mark")


def damaged_and_saved_again(root: Path, record: Recording) -> None:
    """Damage the newest one; the run falls back to the one before and saves the step again."""
    for step in (2, 4):
        seal(save(root, step), step, record)
    record.promise("step", 2)
    with (root / "checkpoint-4" / SHARDS[0]).open("r+b") as handle:
        handle.write(b"flipped")
    found = resume.choose(root, seconds=10)
    require(found is not None and found.step == 2, "the damaged one was chosen")
    seal(save(root, 4, version=2), 4, record)


def whole_by_digests(root: Path, promises: Promises) -> None:
    """Compare digests, as each start does, and judge what it chooses."""
    _judge(resume.choose(root, seconds=10), promises)


def _judge(found: checkpoint.Checkpoint | None, promises: Promises) -> None:
    promised = promises.get("step")
    require(found is not None or promised is None, f"step {promised} is lost")
    if found is None:
        return
    for name in SHARDS:
        read = (found.path / name).read_bytes()
        versions = [content(found.step, name, version) for version in (1, 2)]
        require(read in versions, f"torn {found.path.name}/{name} was taken for whole")
    require(found.step >= int(str(promised or 0)), f"step {found.step}, not {promised}")


# Checkpoints by way of two nodes' disks: written there, announced, copied, sealed.


def save_on_disks(root: Path, step: int, version: int, copied: int, record: Recording) -> None:
    """Save as two ranks of two nodes; the first ``copied`` of them copy their shard."""
    folder = root / "checkpoints" / f"checkpoint-{step}"
    retention.prepare(folder)
    for name in SHARDS[2:]:  # of the trainer, without a flush
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content(step, name, version))
    written = []
    for rank in (0, 1):
        local = root / f"disk-{rank}" / folder.name
        disk.make_folder(local / "iter")
        (local / SHARDS[rank]).write_bytes(content(step, SHARDS[rank], version))
        flush(local / SHARDS[rank])
        flush(local / "iter")
        checkpoint.digest_own(local, rank)
        written.append(checkpoint.rank_digests(local, rank))
    node_disk.announce(folder, written)
    record.promise("step", step)
    for rank in range(copied):
        node_disk.copy_shards(root / f"disk-{rank}" / folder.name, folder, rank)
    if copied == 2:
        checkpoint.seal(folder, step)
        record.promise("sealed", step)


def disks_of_nodes(root: Path, record: Recording) -> None:
    """Save two steps; the copy of the second is cut, and a later attempt saves it again."""
    save_on_disks(root, 2, 1, 2, record)
    save_on_disks(root, 4, 1, 1, record)
    record.promise("step", 2)  # a later attempt has begun with it: the other was given up
    for rank in (0, 1):
        node_disk.make_room(root / f"disk-{rank}", root / "checkpoints")
    save_on_disks(root, 4, 2, 2, record)


def whole_from_disks(root: Path, promises: Promises) -> None:
    """Complete what both nodes have, as the launchers do; all files are of one save."""
    found = _finished(root)
    _judge(found, promises)
    if found is None:
        return
    for rank in (0, 1):
        near = node_disk.nearest(root / f"disk-{rank}", found, 10).path
        files = [(near / name).read_bytes() for name in SHARDS]
        saves = [[content(found.step, name, version) for name in SHARDS] for version in (1, 2)]
        require(files in saves, f"{found.path.name} mixes files of two saves")


def whole_without_a_node(root: Path, promises: Promises) -> None:
    """Lose a node with its disk: what is complete on the workspace is there, the rest given up."""
    disk.remove(root / "disk-1")
    _judge(_finished(root), {"step": promises.get("sealed")})


def _finished(root: Path) -> checkpoint.Checkpoint | None:
    """Copy what the disks have to the workspace; return the checkpoint that a start chooses."""
    for rank in (0, 1):
        node_disk.push(root / f"disk-{rank}", root / "checkpoints")
    with patch.object(node_disk, "VISIBLE_SECONDS", 0):
        node_disk.finish(root / "checkpoints")
    return resume.choose(root / "checkpoints", seconds=10)


# Outputs of stages: made, made anew from other inputs, repaired.

FILES = ("config.json", "weights/a.bin")


def _make(version: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name in FILES:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content(version, name))

    return make


def _produce(root: Path, version: int) -> None:
    path, inputs = root / "models" / "m", {"version": version}
    output.produce("download", "m", path, inputs, _make(version), skip=False, holder="crash")


def outputs(root: Path, record: Recording) -> None:
    for version in (1, 2):
        _produce(root, version)
        record.promise("version", version)
    record.promise("version", None)  # damage is not a crash: nothing is promised until the repair
    (root / "models" / "m" / FILES[0]).write_bytes(b"damaged")
    _produce(root, 2)
    record.promise("version", 2)


def whole_outputs(root: Path, promises: Promises) -> None:
    """A valid marker means that all files are whole; a promised output or its successor is there.

    Then the stage runs again and must succeed.
    """
    path = root / "models" / "m"
    there = [p for p in (path, output.partial_path(path), output.replaced(path)) if _version(p)]
    promised = promises.get("version")
    if promised is not None:
        versions = [_version(p) for p in there]
        require(any(v is not None and v >= int(str(promised)) for v in versions), "output lost")
    _produce(root, 3)
    require(_version(path) == 3, "the stage did not recover")


def _version(path: Path) -> int | None:
    """Return the version of a usable output; fail if one of its files is torn."""
    found = marker.read(path)
    if found is None or output.usable(path, found.inputs) is None:
        return None
    version = int(found.inputs["version"])
    require(not manifest.verify(path, found.manifest, full=True), "torn output taken for whole")
    for name in FILES:
        whole = content(version, name) == (path / name).read_bytes()
        require(whole, f"torn {name} taken for whole")
    return version


# Files that are replaced.


def replacements(root: Path, record: Recording) -> None:
    for number in range(12):
        replace(root / "progress.json", content(number, "progress"))
        record.promise("number", number)


def whole_replacements(root: Path, promises: Promises) -> None:
    """Return the promised content or a later one."""
    path, promised = root / "progress.json", promises.get("number", -1)
    known = {content(number, "progress"): number for number in range(12)}
    found = known.get(path.read_bytes(), -2) if path.exists() else -1
    require(found != -2, "torn progress.json")
    require(found >= int(str(promised)), f"content {found}, not {promised}")


# The lock of a run: a crash must not block the next start.


WAIT_SECONDS = 3.0


def locks(root: Path, record: Recording) -> None:
    for _ in range(3):
        with Lock(root / "run.lock", "crash"):
            record.promise("held", True)
        record.promise("held", False)


def free_lock(root: Path, promises: Promises) -> None:
    begun = time.monotonic()
    with Lock(root / "run.lock", "next") as lock:
        lock.check()
    require(time.monotonic() - begun < WAIT_SECONDS, "the lock of a dead process was respected")


ALL = (
    Scenario(name="checkpoints", run=saves_and_deletions, check=whole_by_sizes),
    Scenario(name="checkpoint saved again", run=damaged_and_saved_again, check=whole_by_digests),
    Scenario(name="nodes' disks", run=disks_of_nodes, check=whole_from_disks),
    Scenario(name="a node's disk lost", run=disks_of_nodes, check=whole_without_a_node),
    Scenario(name="outputs of stages", run=outputs, check=whole_outputs),
    Scenario(name="replaced files", run=replacements, check=whole_replacements),
    Scenario(name="lock", run=locks, check=free_lock),
)

"""Checkpoints on the nodes' disks: completed, given up, read back."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.storage import checkpoint, node_disk
from launchers.storage.checkpoint import Checkpoint
from launchers.storage.chunk_digests import CHUNK_BYTES
from tests.launchers.storage.test_chunk_digests import flip

INDEX = "iter_0000002/.metadata"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_disk, "VISIBLE_SECONDS", 0)


class Run:
    """A run of two nodes with one rank each."""

    def __init__(self, root: Path) -> None:
        self.checkpoints = root / "checkpoints"
        self.disks = [root / "disk-0", root / "disk-1"]

    def shard(self, rank: int, step: int = 2) -> Path:
        return self.disks[rank] / self.on_workspace(rank, step).relative_to(self.checkpoints)

    def on_workspace(self, rank: int, step: int = 2) -> Path:
        return self.checkpoints / f"checkpoint-{step}" / f"iter_{step:07d}" / f"__{rank}_0.distcp"

    def write(self, step: int = 2, content: int = 0, size: int = 100) -> Path:
        folder = self.checkpoints / f"checkpoint-{step}"
        for rank, disk in enumerate(self.disks):
            path = self.shard(rank, step)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes([content + rank]) * size)
            checkpoint.digest_own(disk / folder.name, rank)
        index = folder / f"iter_{step:07d}" / ".metadata"
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_bytes(b"index")
        local = [disk / folder.name for disk in self.disks]
        written = [checkpoint.rank_digests(path, rank) for rank, path in enumerate(local)]
        node_disk.announce(folder, written)
        return folder

    def restart(self, *nodes: int) -> int:
        """Do what the launchers of these nodes do before a start; return the newest step."""
        for node in nodes:
            node_disk.push(self.disks[node], self.checkpoints)
        node_disk.finish(self.checkpoints)
        found = checkpoint.newest(self.checkpoints)
        return found.step if found else 0

    def nearest(self, rank: int, seconds: float = 10, step: int = 2) -> Path:
        """Return what a node reads from."""
        found = Checkpoint(path=self.checkpoints / f"checkpoint-{step}", step=step)
        return node_disk.nearest(self.disks[rank], found, seconds).path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_all_nodes_complete_what_they_have(run: Run) -> None:
    folder = run.write()
    assert run.restart(0, 1) == 2
    assert not checkpoint.verify(folder, 10).damaged
    assert not (folder / checkpoint.PENDING).exists() and not checkpoint.rank_notes(folder)
    assert not node_disk.copying(folder).exists()


def test_a_node_without_its_shards_leaves_the_one_before(run: Run) -> None:
    checkpoint.seal(run.write(step=1), 1)
    run.write()
    assert run.restart(0) == 1
    assert run.restart(0, 1) == 1  # it was given up


DAMAGES: dict[str, Callable[[Path], object]] = {
    "bit": lambda shard: flip(shard, CHUNK_BYTES + 3),
    "cut": lambda shard: os.truncate(shard, CHUNK_BYTES),
    "gone": Path.unlink,
    "other disk": lambda shard: shard.parents[1].rename(shard.parents[2] / "elsewhere"),
}


@pytest.mark.parametrize("change", DAMAGES)
def test_a_damaged_shard_is_never_completed(run: Run, change: str) -> None:
    run.write(size=CHUNK_BYTES + 7)
    DAMAGES[change](run.shard(1))
    assert run.restart(0, 1) == 0
    assert not run.on_workspace(1).exists()


def test_shards_of_an_earlier_attempt_are_not_mixed_with_later_ones(run: Run) -> None:
    """The first attempt has copied both shards, the second one has written the step anew."""
    folder = run.write()
    for rank in (0, 1):
        node_disk.copy_shards(run.disks[rank] / folder.name, folder, rank)
    run.write(content=7)
    assert run.restart(0) == 0  # rank 1's on the workspace are the first attempt's
    run.write(content=7)
    assert run.restart(0, 1) == 2
    assert [run.on_workspace(rank).read_bytes()[0] for rank in (0, 1)] == [7, 8]


def test_a_later_attempt_withdraws_what_an_earlier_one_has_announced(run: Run) -> None:
    folder = run.write()
    checkpoint.unseal(folder)
    assert not list(node_disk.pending(run.checkpoints))
    assert run.restart(0, 1) == 0


def test_an_older_one_than_the_newest_complete_is_left(run: Run) -> None:
    checkpoint.seal(run.write(step=4), 4)
    run.write(step=2)
    assert run.restart(0, 1) == 4 and not run.on_workspace(0, 2).exists()


def test_a_node_reads_its_own_shards_from_its_disk(run: Run) -> None:
    run.write()
    run.restart(0, 1)
    seen = run.nearest(0)
    assert (seen / "iter_0000002/__0_0.distcp").readlink() == run.shard(0)
    assert (seen / "iter_0000002/__1_0.distcp").readlink() == run.on_workspace(1)
    assert (seen / INDEX).read_bytes() == b"index"
    assert Checkpoint(path=seen, step=2).has_megatron_state
    assert seen == run.nearest(0)  # made anew


@pytest.mark.parametrize("change", ["bit", "cut", "gone"])
def test_a_damaged_shard_is_read_from_the_workspace(run: Run, change: str) -> None:
    run.write(size=CHUNK_BYTES + 7)
    run.restart(0, 1)
    DAMAGES[change](run.shard(0))
    assert (run.nearest(0) / "iter_0000002/__0_0.distcp").readlink() == run.on_workspace(0)


def test_a_shard_of_another_run_of_the_name_is_not_read(run: Run) -> None:
    """Also if nothing is compared: the digests recorded at the write differ."""
    run.write(content=7)
    run.restart(0, 1)
    run.write(content=3)
    seen = run.nearest(0, seconds=0)
    assert (seen / "iter_0000002/__0_0.distcp").readlink() == run.on_workspace(0)


def test_a_disk_that_fails_is_not_read(run: Run) -> None:
    folder = run.write()
    run.restart(0, 1)
    run.disks[0] = run.checkpoints / "a file"
    run.disks[0].write_text("")
    assert run.nearest(0) == folder


def test_room_is_made_for_the_next_save(run: Run) -> None:
    for step in (1, 2, 3):
        run.write(step)
    checkpoint.seal(run.write(2), 2)
    run.nearest(0)
    node_disk.make_room(run.disks[0], run.checkpoints)
    assert sorted(path.name for path in run.disks[0].iterdir()) == ["checkpoint-2", "resume"]


def test_room_is_that_of_the_disk_or_of_the_limit(tmp_path: Path) -> None:
    root = tmp_path / "disk" / "run"
    assert node_disk.has_room(root, 100, 0) and node_disk.has_room(root, 90, 100)
    assert not node_disk.has_room(root, 10**18, 0)
    (root / "checkpoint-1").write_bytes(bytes(10))
    assert node_disk.has_room(root, 81, 100) and not node_disk.has_room(root, 82, 100)


def test_what_is_not_the_runs_is_left(run: Run) -> None:
    run.write()
    other = run.disks[0].parent / "other"
    other.mkdir()
    (other / "file").write_text("kept")
    (run.disks[0] / "checkpoint-9").symlink_to(other)
    node_disk.clear(run.disks[0])
    assert not run.disks[0].exists() and (other / "file").read_text() == "kept"


def test_without_a_disk_nothing_is_copied(run: Run) -> None:
    run.write()
    node_disk.push(None, run.checkpoints)
    assert not run.on_workspace(0).exists()

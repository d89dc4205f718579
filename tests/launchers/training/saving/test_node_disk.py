"""Saves through each node's disk: two ranks of megatron-core, each with a disk of its own."""

import shutil
from pathlib import Path

import pytest

from launchers.storage import checkpoint, node_disk
from tests.launchers.stages.checkpoints import newest_step
from tests.launchers.training.ranks_on_cpu import reports, said
from tests.launchers.training_environment import needs_oracle, needs_training

pytestmark = [needs_training, needs_oracle]
RANKS = "tests.launchers.training.saving.save_ranks"


def assert_resumed(checkpoints: Path) -> None:
    for found in reports(RANKS, "resumed", str(checkpoints)):
        assert (found["step"], found["same"]) == (2, True)


def test_a_resume_reads_the_own_disk_to_the_last_bit(tmp_path: Path) -> None:
    lines = reports(RANKS, "staged", str(tmp_path / "checkpoints"))
    assert len(lines) == 2
    for found in lines:
        assert found["sealed"] == [1, 2] and found["same"] == [True, True]
        assert found["kept"] == ["checkpoint-1", "checkpoint-2"]
    assert not list((tmp_path / "checkpoints").glob("*.copying/*"))


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that has ended while its second checkpoint was copied."""
    root = tmp_path_factory.mktemp("cut")
    said(RANKS, "cut", str(root / "checkpoints"))
    assert newest_step(root / "checkpoints") == 1
    return root


def restarted(cut: Path, tmp_path: Path, nodes: tuple[int, ...] = (0, 1)) -> int:
    """Do what the launchers of these nodes do before a start; return the newest step."""
    root, checkpoints = tmp_path, tmp_path / "checkpoints"
    shutil.copytree(cut, root, dirs_exist_ok=True, symlinks=True)
    for node in nodes:
        node_disk.push(root / f"node-{node}", checkpoints)
    node_disk.finish(checkpoints)
    return newest_step(checkpoints)


def test_a_checkpoint_that_was_cut_in_its_copy_is_completed(cut: Path, tmp_path: Path) -> None:
    assert restarted(cut, tmp_path) == 2
    checkpoints = tmp_path / "checkpoints"
    assert not checkpoint.verify(checkpoints / "checkpoint-2", 10).damaged
    assert_resumed(checkpoints)


def test_nodes_may_have_changed_places(cut: Path, tmp_path: Path) -> None:
    assert restarted(cut, tmp_path) == 2
    (tmp_path / "node-0").rename(tmp_path / "node")
    (tmp_path / "node-1").rename(tmp_path / "node-0")
    (tmp_path / "node").rename(tmp_path / "node-1")
    assert_resumed(tmp_path / "checkpoints")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_node_leaves_the_one_before(
    cut: Path, tmp_path: Path, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_disk, "VISIBLE_SECONDS", 0)
    assert restarted(cut, tmp_path, nodes=(1 - lost,)) == 1
    # decided once: the node that comes back does not revive it
    node_disk.push(tmp_path / f"node-{lost}", tmp_path / "checkpoints")
    node_disk.finish(tmp_path / "checkpoints")
    assert newest_step(tmp_path / "checkpoints") == 1

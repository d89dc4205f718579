"""Real launchers complete a checkpoint from the nodes' disks, and train from what they have."""

import os
import signal
from pathlib import Path

import pytest

from launchers.storage import checkpoint
from tests.launchers.pods import Pods, end
from tests.launchers.storage.test_node_disk import Run
from tests.launchers.waiting import eventually

STEP = 6


class Disks(Pods):
    def env(self, rank: int, **change: str) -> dict[str, str]:
        disk = self.folder / f"node-{rank}"
        return super().env(rank, **{"DPO_LOCAL_CHECKPOINTS": str(disk), **change})

    @property
    def checkpoints(self) -> Run:
        """Return the checkpoints of the run, on the workspace and on the disks."""
        found = Run(self.run)
        found.disks = [self.folder / f"node-{rank}" / "r" for rank in (0, 1)]
        return found

    def resumed(self, rank: int, attempt: int) -> Path | None:
        """Return what an attempt has resumed from."""
        words = self.argv(rank, attempt=attempt)
        flag = "--resume_from_checkpoint"
        return Path(words[words.index(flag) + 1]) if flag in words else None


@pytest.fixture
def pods(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def write(pods: Disks) -> None:
    folder = pods.checkpoints.write(STEP)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")


def cut(pods: Disks) -> None:
    """Leave a run that has ended in the copy of a checkpoint."""
    pods.train = "0:kill:9,1:hang"
    assert [code for code, _ in pods.all()] == [1, 1]
    write(pods)
    pods.train = ""


def test_new_pods_complete_it_and_read_their_disks(pods: Disks) -> None:
    cut(pods)
    ends = pods.all()
    assert [code for code, _ in ends] == [0, 0], ends
    for rank in (0, 1):
        seen = pods.resumed(rank, 2)
        assert seen == pods.checkpoints.disks[rank] / "resume" / f"checkpoint-{STEP}"
    assert "checkpoint completed from the nodes' disks" in ends[0][1]
    found = checkpoint.newest(pods.checkpoints.checkpoints)
    assert found is not None and found.step == STEP
    assert not any(disk.exists() for disk in pods.checkpoints.disks)  # the run is over


def test_the_same_pods_complete_it(pods: Disks) -> None:
    pods.train = "0.1:hang,1.1:hang"
    started = [pods.start(rank, DPO_RESTARTS_IN_PLACE="1") for rank in (0, 1)]
    attempt = pods.run / "attempts" / "1"
    assert eventually(lambda: len([*attempt.rglob("pid")]) == 2, 60)
    write(pods)
    [torchrun] = (attempt / "node-1").rglob("pid")
    os.kill(int(torchrun.read_text()), signal.SIGKILL)
    ends = [end(pod) for pod in started]
    assert [code for code, _ in ends] == [0, 0], ends
    for rank in (0, 1):
        seen = pods.resumed(rank, 2)
        assert seen == pods.checkpoints.disks[rank] / "resume" / f"checkpoint-{STEP}"

"""Real launchers complete a checkpoint from the nodes' disks, and train from what they have."""

import os
import signal
from pathlib import Path

import pytest

from launchers.storage import checkpoint
from tests.launchers.pods import Pods, end
from tests.launchers.storage.test_node_disk import Run

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

    def have_resumed(self, attempt: int) -> bool:
        """Return whether an attempt has read each node's disk."""
        return all(
            self.flag("resume_from_checkpoint", rank, attempt)
            == str(disk / "resume" / f"checkpoint-{STEP}")
            for rank, disk in enumerate(self.checkpoints.disks)
        )


@pytest.fixture
def pods(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def write(pods: Disks) -> None:
    folder = pods.checkpoints.write(STEP)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")


def test_new_pods_complete_it_and_read_their_disks(pods: Disks) -> None:
    """The first ones have ended in the copy of a checkpoint."""
    pods.train = "0:kill:9,1:hang"
    pods.ended(1, 1)
    write(pods)
    pods.train = ""
    outputs = pods.ended()
    assert pods.have_resumed(2)
    assert "checkpoint completed from the nodes' disks" in outputs[0]
    found = checkpoint.newest(pods.checkpoints.checkpoints)
    assert found is not None and found.step == STEP
    assert not any(disk.exists() for disk in pods.checkpoints.disks)  # the run is over


def test_the_same_pods_complete_it(pods: Disks) -> None:
    pods.train = "0.1:hang,1.1:hang"
    started = [pods.start(rank, DPO_RESTARTS_IN_PLACE="1") for rank in (0, 1)]
    torchruns = pods.files("pid")
    write(pods)
    [torchrun] = [each for each in torchruns if "node-1" in each.parts]
    os.kill(int(torchrun.read_text()), signal.SIGKILL)
    ends = [end(pod) for pod in started]
    assert [code for code, _ in ends] == [0, 0], ends
    assert pods.have_resumed(2)

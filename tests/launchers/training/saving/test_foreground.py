"""A save that stops training gives heartbeats as long as it writes."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.hang import stacks
from launchers.hang.heartbeat import Heartbeat
from launchers.storage import disk
from launchers.system.step_board import VARIABLE, Phase, StepBoard
from launchers.training.saving import foreground
from launchers.training.saving.foreground import Parts

PART = 1 << 16


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "FLUSHED_BYTES", PART)
    monkeypatch.setattr(foreground, "POLL_SECONDS", 0.02)


def test_each_part_of_a_file_that_is_open_for_writing_is_flushed_once(tmp_path: Path) -> None:
    parts, file = Parts(tmp_path), tmp_path / "checkpoint-2" / "model.safetensors"
    file.parent.mkdir()
    with file.open("wb", buffering=0) as writer:
        writer.write(bytes(PART - 1))
        assert list(parts.flush()) == []
        writer.write(b"x")
        assert list(parts.flush()) == [file]
        assert list(parts.flush()) == []
        writer.write(bytes(PART))
        assert list(parts.flush()) == [file]
        writer.truncate(0)  # another save of the same step
        writer.seek(0)
        assert list(parts.flush()) == []
        writer.write(bytes(PART))
        assert list(parts.flush()) == [file]
    with file.open("rb"):
        assert list(Parts(tmp_path).flush()) == []  # it is read
    with (tmp_path.parent / "elsewhere").open("wb", buffering=0) as other:
        other.write(bytes(PART))
        assert list(Parts(tmp_path).flush()) == []


def test_what_a_fork_writes_counts(tmp_path: Path) -> None:
    """Megatron forks a process for each file."""
    ready, end = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        handle = os.open(tmp_path / "__0_0.distcp", os.O_CREAT | os.O_WRONLY)
        os.write(handle, bytes(PART))
        os.write(ready[1], b"x")
        os.read(end[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    assert list(Parts(tmp_path).flush()) == [tmp_path / "__0_0.distcp"]
    os.write(end[1], b"x")
    os.waitpid(child, 0)


def test_a_flush_that_fails_or_hangs_is_no_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with (tmp_path / "file").open("wb", buffering=0) as writer:
        writer.write(bytes(PART))
        assert list(Parts(tmp_path).flush()) == []


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the thread that looks at the board: later tests replace the clock it sleeps by."""
    yield

    def end(_: StepBoard) -> None:
        raise SystemExit

    monkeypatch.setattr(StepBoard, "read", end)
    for thread in threading.enumerate():
        if thread.name == "save-signs":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.usefixtures("ended")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("phase", "beats"), [(Phase.SAVE, True), (Phase.STEP, False)])
def test_only_a_save_lives_by_what_it_writes(phase: Phase, beats: bool, tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 1)
    home = tmp_path / "runs" / "r"
    env = {VARIABLE: str(board.path), stacks.FOLDER: str(tmp_path), "DPO_RUN_FOLDER": str(home)}
    Heartbeat(env).begin()
    folder = home / "checkpoints" / "checkpoint-2"
    folder.mkdir(parents=True)
    with (folder / "optimizer.pt").open("wb", buffering=0) as writer:
        board.write(0, phase=phase)
        begun = board.read()[0].beat
        for _ in range(20):
            writer.write(bytes(PART))
            time.sleep(0.05)
    assert (board.read()[0].beat > begun + 0.3) == beats

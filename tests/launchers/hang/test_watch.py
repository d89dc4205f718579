"""The watch of one node: what it looks at, and that it can be turned off."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.settings import from_env
from launchers.exits import Exit
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import PeerLoss
from launchers.hang import stacks
from launchers.hang import watch as hang
from launchers.hang.agreement import HangAgreement
from launchers.hang.settings import FLOORS, Hang
from launchers.hang.silence import StepTimes
from launchers.hang.watch import _looking, _planned_save, watching
from launchers.system.step_board import Phase, StepBoard
from tests.launchers.waiting import eventually

SHORT = dict.fromkeys(FLOORS, 0)
SETTINGS = from_env({"DPO_RUN": "r", "DPO_WORKSPACE": "/w"})
LAUNCH, HANG = SETTINGS.launch, SETTINGS.training.hang
MEMBER = replace(LAUNCH, place=replace(LAUNCH.place, rank=1, nodes=2))


def test_a_silent_node_is_seen_until_a_stop_is_requested(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    for local in (0, 1):
        board.write(local, phase=Phase.STEP, boundary=8, step_seconds=0.0, pid=os.getpid())
    look = _looking(board, SHORT, StepTimes())
    found = look()
    assert found is not None and (found.phase, found.limit) == ("first_step", 0)
    board.request()
    assert look() is None  # the grace period is the limit


def test_a_save_as_planned_counts_before_the_first_one(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert _planned_save(plan) == 0
    for footprint, seconds in (({"save_seconds": 50}, 50), (None, 0), ({}, 0)):
        plan.write_text(json.dumps({"footprint": footprint}))
        assert _planned_save(plan) == seconds


def test_a_disabled_watch_sets_nothing(tmp_path: Path) -> None:
    off = replace(HANG, is_watched=False)
    board = StepBoard.make(tmp_path / "board", 1)
    with watching(LAUNCH, off, board, PeerMonitor(), tmp_path, {}) as watch:
        assert watch.env == {}


def test_the_evidence_stays_on_the_nodes_own_disk_and_goes(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 1)
    with watching(LAUNCH, HANG, board, PeerMonitor(), tmp_path, {}) as watch:
        folder = Path(watch.env[stacks.FOLDER])
        assert folder.is_dir() and tmp_path not in folder.parents
        assert watch.env["TORCH_FR_DUMP_TEMP_FILE"].startswith(str(folder))
    assert not folder.exists()


def ended(folder: Path, *, is_trained: bool = True) -> StepBoard:
    """Return the board of a node whose only process has ended, after its training or before."""
    process = subprocess.Popen(["true"])
    process.wait()
    board = StepBoard.make(folder / "board", 1)
    board.write(0, pid=process.pid, phase=Phase.SAVE, is_trained=is_trained)
    return board


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang, "POLL_SECONDS", 0.05)


@pytest.fixture
def torchrun() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def ending(seconds: int) -> Hang:
    return replace(HANG, floors={**FLOORS, "end": seconds})


@pytest.mark.parametrize(
    ("is_stopped", "floor", "why"),
    [(True, 2, "torchrun is stopped"), (False, 1, "torchrun does not end (state S)")],
)
def test_a_torchrun_that_outlasts_its_processes_ends_the_node(
    tmp_path: Path, torchrun: subprocess.Popen[bytes], is_stopped: bool, floor: int, why: str
) -> None:
    if is_stopped:
        torchrun.send_signal(signal.SIGSTOP)
    peers, begin = PeerMonitor(), time.monotonic()
    with watching(LAUNCH, ending(floor), ended(tmp_path), peers, tmp_path, {}) as watch:
        watch.torchrun = torchrun.pid
        assert eventually(lambda: watch.has_ended)
    assert time.monotonic() - begin > floor * (0.2 if is_stopped else 1)
    error = watch.verdict(peers)
    assert error is not None and (error.code, error.id) == (Exit.HANG, "hang")
    assert why in error.cause and "node 0 ended" in error.cause
    found = json.loads((tmp_path / "hang.json").read_text())
    assert (found["phase"], found["culprit"]["kind"]) == ("end", "torchrun")


def test_processes_that_end_early_end_the_node_while_torchrun_waits_for_the_others(
    tmp_path: Path, torchrun: subprocess.Popen[bytes]
) -> None:
    board, peers, begin = ended(tmp_path, is_trained=False), PeerMonitor(), time.monotonic()
    with watching(MEMBER, ending(5), board, peers, tmp_path, {}) as watch:
        watch.torchrun = torchrun.pid
        assert eventually(lambda: watch.has_ended)
    assert 1 < time.monotonic() - begin < 5
    error = watch.verdict(peers)
    assert error is not None and (error.code, error.id) == (Exit.INCOMPLETE, "train-incomplete")
    assert error.cause.endswith(": rank 1 of node 1 has ended early")
    assert not (tmp_path / "hang.json").exists()


def test_a_torchrun_that_waits_for_other_nodes_or_has_ended_ends_nothing(
    tmp_path: Path, torchrun: subprocess.Popen[bytes]
) -> None:
    with watching(LAUNCH, ending(3), ended(tmp_path), PeerMonitor(), tmp_path, {}) as watch:
        watch.torchrun = torchrun.pid
        time.sleep(1.5)  # a stopped one would have ended the node
        assert not watch.has_ended
        torchrun.kill()
        torchrun.wait()
        time.sleep(2)
    assert watch.error is None


def test_a_rank_that_does_not_end_to_write_ends_the_node_while_it_trains(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    known = replace(HANG, floors={**FLOORS, "save": 1})
    peers = PeerMonitor()
    with watching(MEMBER, known, board, peers, tmp_path, {}) as watch:
        for local in (0, 1):
            board.mark_write(local, is_open=True)
        board.mark_write(0, is_open=False)

        def trained() -> bool:
            board.write(1, phase=Phase.STEP, boundary=8, step_seconds=0.1)
            return watch.has_ended

        assert eventually(trained)
    error = watch.verdict(peers)
    assert error is not None and error.code == Exit.HANG
    assert "rank 3 has been writing a checkpoint for 1 s (limit 1 s)" in error.cause
    found = json.loads((tmp_path / "hang.json").read_text())
    assert found["culprit"]["ranks"] == [3] and found["ranks"][1]["writes"] > 1


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_node_that_ends_before_the_decision_still_ends_with_the_hang(
    tmp_path: Path, culprit: int
) -> None:
    board = StepBoard.make(tmp_path / "board", 1)
    hangs = HangAgreement(2, lambda message: None, rank=1)
    peers = PeerMonitor(hangs=hangs)
    with watching(MEMBER, HANG, board, peers, tmp_path, {}) as watch:
        hangs.hear(0, {"hang": "gather"})
        peers.record_loss(PeerLoss(who="rank 0", cause="ended because another rank failed"))
    end = {"hang": "end", "node": culprit, "cause": "hang: rank 2 is stopped", "kind": "stopped"}
    threading.Timer(0.5, hangs.hear, (0, end)).start()
    error = watch.verdict(peers)
    assert (error and error.code) == (Exit.HANG if culprit == 1 else None)

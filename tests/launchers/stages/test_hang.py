"""The watch of one node: what it looks at, and that it can be turned off."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.hang import FLOORS
from launchers.config.settings import from_env
from launchers.exits import Exit
from launchers.gang.hang_agreement import HangAgreement
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Loss
from launchers.hang import stacks
from launchers.stages.hang import _looking, watching
from launchers.system.step_board import Phase, StepBoard

SHORT = dict.fromkeys(FLOORS, 0)
SETTINGS = from_env({"DPO_RUN": "r", "DPO_WORKSPACE": "/w"})


def test_a_silent_node_is_seen_until_a_stop_is_requested(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    for local in (0, 1):
        board.write(local, phase=Phase.STEP, boundary=8, step_seconds=0.0, pid=os.getpid())
    look = _looking(board, SHORT)
    found = look()
    assert found is not None and (found.phase, found.limit) == ("step", 0)
    board.request()
    assert look() is None  # the grace period is the limit


def test_a_disabled_watch_sets_nothing(tmp_path: Path) -> None:
    off = replace(SETTINGS, hang=replace(SETTINGS.hang, is_watched=False))
    board = StepBoard.make(tmp_path / "board", 1)
    with watching(off, board, PeerMonitor(), tmp_path, {}) as watch:
        assert watch.env == {}


def test_the_evidence_stays_on_the_nodes_own_disk_and_goes(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 1)
    with watching(SETTINGS, board, PeerMonitor(), tmp_path, {}) as watch:
        folder = Path(watch.env[stacks.FOLDER])
        assert folder.is_dir() and tmp_path not in folder.parents
        assert watch.env["TORCH_FR_DUMP_TEMP_FILE"].startswith(str(folder))
    assert not folder.exists()


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_node_that_ends_before_the_decision_still_ends_with_the_hang(
    tmp_path: Path, culprit: int
) -> None:
    member = replace(SETTINGS, place=replace(SETTINGS.place, rank=1, nodes=2))
    board = StepBoard.make(tmp_path / "board", 1)
    hangs = HangAgreement(2, lambda message: None, is_leader=False)
    peers = PeerMonitor(hangs=hangs)
    with watching(member, board, peers, tmp_path, {}) as watch:
        hangs.hear(0, {"hang": "gather"})
        peers.record_loss(Loss(who="rank 0", cause="ended because another rank failed"))
    end = {"hang": "end", "node": culprit, "cause": "hang: rank 2 is stopped"}
    threading.Timer(0.5, hangs.hear, (0, end)).start()
    error = watch.verdict(peers)
    assert (error and error.code) == (Exit.HANG if culprit == 1 else None)

"""Evidence of real processes: stacks on the signal, states, and the files that are kept."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchers.hang import evidence, stacks
from launchers.hang.evidence import Scene
from launchers.system.step_board import VARIABLE, Phase, StepBoard
from scripts.helm import ROOT
from tests.launchers.waiting import eventually

Processes = list[subprocess.Popen[bytes]]
PROCESS = """
import os, sys, threading, time
from launchers.system.step_board import Phase
from launchers.hang.heartbeat import Heartbeat

def hangs_here():
    time.sleep(600)

def other_thread():
    time.sleep(600)

threading.Thread(target=other_thread, daemon=True).start()
beat = Heartbeat(os.environ)
beat.begin()
with beat.phase(Phase.REFERENCE, Phase.START):
    beat.loading(hangs_here)()
"""


@contextmanager
def scene(folder: Path, processes: int = 2) -> Iterator[tuple[Scene, Processes]]:
    local, attempt = folder / "local", folder / "attempt"
    local.mkdir()
    attempt.mkdir()
    board = StepBoard.make(folder / "board", processes)
    env = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(board.path)}
    env[stacks.FOLDER] = str(local)
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS], env={**env, "LOCAL_RANK": str(number)})
        for number in range(processes)
    ]
    try:
        assert eventually(lambda: all(each.loads for each in board.read()), 60)
        yield Scene(board=board, node=1, local=local, attempt=attempt), running
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_a_process_reports_where_it_hangs(tmp_path: Path) -> None:
    with scene(tmp_path) as (seen, running):
        workers = seen.gather()
        assert all(each.poll() is None for each in running)  # the signal ends nobody
    assert [(w.rank, w.node) for w in workers] == [(2, 1), (3, 1)]
    for worker in workers:
        assert worker.frames[0].endswith(" hangs_here")
        assert not any("other_thread" in frame for frame in worker.frames)
        assert (worker.phase, worker.loads, worker.state) == ("reference", True, "S")
        assert 0 <= worker.age < 60
    kept = (seen.attempt / "stacks-1-0.txt").read_text()
    assert "hangs_here" in kept and "other_thread" in kept


def test_a_second_hang_has_its_own_stacks(tmp_path: Path) -> None:
    with scene(tmp_path, 1) as (seen, _):
        first, second = seen.gather(), seen.gather()
    assert first[0].frames == second[0].frames


def test_a_stopped_process_is_not_waited_for(tmp_path: Path) -> None:
    with scene(tmp_path) as (seen, running):
        running[0].send_signal(signal.SIGSTOP)
        assert eventually(lambda: evidence._state(seen.board.read()[0]) == "T")
        begin = time.monotonic()
        stopped, other = seen.gather()
        assert time.monotonic() - begin < stacks.SECONDS
    assert (stopped.state, stopped.frames) == ("T", ())
    assert other.frames


def test_a_process_without_a_handler_gets_no_signal(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 1)
    [worker] = Scene(board=board, node=0, local=tmp_path, attempt=tmp_path).gather()
    assert (worker.state, worker.frames, worker.phase) == ("", (), Phase.START.name.lower())


def test_a_workspace_that_cannot_be_written_costs_only_the_files(tmp_path: Path) -> None:
    with scene(tmp_path, 1) as (seen, _):
        seen.attempt.rmdir()
        assert seen.gather()[0].frames


def test_a_workspace_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "KEEP_SECONDS", 0.1)
    monkeypatch.setattr(Scene, "_keep", lambda *_: time.sleep(600))
    with scene(tmp_path, 1) as (seen, _):
        begin = time.monotonic()
        assert seen.gather()[0].frames
        assert time.monotonic() - begin < 5

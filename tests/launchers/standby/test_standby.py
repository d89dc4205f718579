"""The launcher's part of a standby, with small programs in place of torchrun and its workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.rank import Place
from launchers.standby import standby as module
from launchers.standby.message import _LENGTH, READY, Message, outcome
from launchers.standby.standby import Command, Standby
from launchers.system.process import descendants, kill_descendants
from launchers.system.step_board import Phase, StepBoard
from scripts.helm import ROOT
from tests.launchers.processes import is_running
from tests.launchers.waiting import eventually

SECONDS = 60.0
WAITS = """
import os, socket, subprocess, sys
from launchers.standby.message import Waiting
waiting = Waiting(socket.socket(fileno=int(sys.argv[-1])))
subprocess.Popen(["sleep", "300"], start_new_session=True)
if os.environ["REPORT"]:
    waiting.report(os.environ["REPORT"])
waiting.become()
print("argv", *sys.argv, "given", os.environ["GIVEN"], "REPORT" in os.environ, flush=True)
os.write(2, b"and stderr")
"""
"""Reports the given state, has a child, and prints its command line and environment."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    (tmp_path / "waits.py").write_text(WAITS)
    monkeypatch.setattr(module, "AGENT", "waits")
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    place = Place(rank=1, nodes=2, master_addr="m", master_port=1, source="single")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{tmp_path}", "REPORT": READY}
    return Command(program="rlhf.py", nproc=4, place=place, env=env)


@pytest.fixture
def board(tmp_path: Path) -> StepBoard:
    made = StepBoard.make(tmp_path / "board", 1)
    made.write(0, boundary=4, phase=Phase.STEP, step_seconds=0.1)
    return made


@pytest.fixture
def standby() -> Iterator[Standby]:
    made = Standby(is_wanted=True)
    yield made
    made.close()


def ready(standby: Standby) -> bool:
    return standby._waiting is not None and standby._waiting.said == READY


def start(standby: Standby) -> tuple[subprocess.Popen[bytes], str]:
    """Start torchrun, which prints a word; return its process and output."""
    source, sink = os.pipe()
    argv = [sys.executable, "-m", "this", "word"]
    env = {"GIVEN": "value", "PATH": os.environ["PATH"]}
    process = standby.start(argv, env, sink)
    os.close(sink)
    with os.fdopen(source) as output:
        return process, output.read()


def test_a_ready_standby_becomes_torchrun(
    standby: Standby, command: Command, board: StepBoard
) -> None:
    with standby.during(command, board):
        assert eventually(lambda: ready(standby))
    [pid] = standby.pids
    process, said = start(standby)
    assert process.pid == pid and process.wait() == 0
    assert said.splitlines() == ["argv this word given value False", "and stderr"]
    assert standby.pids == frozenset()  # it is torchrun now, and ends as torchrun


def test_the_command_line_names_the_ranks_of_the_node(command: Command) -> None:
    assert command.argv[2:] == ["waits", "rlhf.py", "4", "4", "8"]


def test_none_is_started_before_the_first_step_and_while_a_stop_is_requested(
    tmp_path: Path, standby: Standby, command: Command
) -> None:
    fresh = StepBoard.make(tmp_path / "fresh", 1)
    with standby.during(command, fresh):
        time.sleep(0.5)
        assert standby.pids == frozenset()
        fresh.request()
        fresh.write(0, boundary=4, phase=Phase.STEP, step_seconds=0.1)
        time.sleep(0.5)
    assert standby.pids == frozenset()


def test_none_is_started_where_none_is_wanted(command: Command, board: StepBoard) -> None:
    standby = Standby(is_wanted=False)
    with standby.during(command, board):
        time.sleep(0.5)
    assert standby.pids == frozenset()
    assert "Beautiful is better" in start(standby)[1]


@pytest.mark.parametrize("how", ["missing", "not ready", "killed", "stopped before use"])
def test_a_new_torchrun_is_started_without_a_ready_standby(
    standby: Standby, command: Command, board: StepBoard, how: str
) -> None:
    if how == "not ready":
        command = replace(command, env={**command.env, "REPORT": ""})
    if how != "missing":
        with standby.during(command, board):
            assert eventually(lambda: standby.pids)
            if how != "not ready":
                assert eventually(lambda: ready(standby))
    waiting = [*standby.pids]
    if how == "killed":
        os.kill(waiting[0], signal.SIGKILL)
        assert eventually(lambda: not ready(standby) or standby._waiting.popen.poll() is not None)  # type: ignore[union-attr]
    if how == "stopped before use":
        standby.close()
    process, said = start(standby)
    assert process.pid not in waiting and "Beautiful is better" in said
    assert process.wait() == 0 and standby.pids == frozenset()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in waiting))


def test_one_that_reports_a_failure_is_ended_at_once(
    standby: Standby, command: Command, board: StepBoard
) -> None:
    command = replace(command, env={**command.env, "REPORT": "ImportError: no swift"})
    with standby.during(command, board):
        assert eventually(lambda: standby.pids)
        [pid] = standby.pids
        assert eventually(lambda: not standby.pids)
    assert not Path(f"/proc/{pid}").exists()


def test_one_of_another_environment_is_not_used(
    standby: Standby, command: Command, board: StepBoard, tmp_path: Path
) -> None:
    with standby.during(command, board):
        assert eventually(lambda: ready(standby))
    other = replace(command, env={**command.env, "NCCL_DEBUG": "INFO"})
    with standby.during(other, StepBoard.make(tmp_path / "fresh", 1)):
        assert standby.pids == frozenset()


def test_the_end_of_an_attempt_spares_it_and_close_ends_all_of_it(
    standby: Standby, command: Command, board: StepBoard
) -> None:
    with standby.during(command, board):
        assert eventually(lambda: ready(standby))
    [pid] = standby.pids
    below = descendants(pid)
    assert len(below) == 1
    rank = subprocess.Popen(["sleep", "300"])
    assert kill_descendants(SECONDS, standby.pids)
    assert not is_running(rank.pid)
    assert ready(standby) and descendants(pid) == below
    standby.close()
    assert eventually(lambda: not any(is_running(each) for each in [pid, *below]))


def waiting(command: Command) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Return a waiting process that is ready, and the launcher's end of its connection."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [*command.argv, str(theirs.fileno())], env=dict(command.env), pass_fds=[theirs.fileno()]
        )
    assert outcome(ours, block=True) == READY
    return ours, process


def test_a_waiting_process_ends_with_its_launcher(command: Command) -> None:
    ours, process = waiting(command)
    ours.close()
    assert process.wait(SECONDS) == 0


def test_a_waiting_process_that_gets_garbage_ends(command: Command) -> None:
    ours, process = waiting(command)
    with ours:
        socket.send_fds(ours, [_LENGTH.pack(4)], [1, 2])
        ours.sendall(b"none")
        try:
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_a_large_environment_arrives_whole(command: Command) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        env = {f"NAME_{n}": "x" * 1000 for n in range(90)}  # less than the buffer of a socket
        Message(argv=["a", "b"], env=env, stdout=1, stderr=2).send(ours)
        found = Message.receive(theirs)
    assert found is not None and (list(found.argv), dict(found.env)) == (["a", "b"], env)
    for each in (found.stdout, found.stderr):
        os.close(each)


@pytest.mark.parametrize("sent", [b"", b"\0" * 7, b"\0" * 8, b"garbage and more"])
def test_a_torn_message_is_none(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(sent)
        ours.close()
        assert Message.receive(theirs) is None

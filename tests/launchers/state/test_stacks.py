"""The stacks of training processes that a person asks for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from launchers import PACKAGE
from launchers.hang import stacks
from launchers.state.stacks import OWN_SECONDS
from launchers.system.step_board import VARIABLE, StepBoard
from tests.launchers.waiting import eventually

TRAINS = """
import os, time
from launchers.hang.heartbeat import Heartbeat

def computes():
    time.sleep(600)

Heartbeat(os.environ).begin()
if not os.fork():
    time.sleep(600)  # a worker of a data loader
computes()
"""


def test_each_process_writes_its_stacks_and_goes_on(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    env = {**os.environ, VARIABLE: str(board.path), stacks.FOLDER: str(tmp_path)}
    words = [sys.executable, "-c", TRAINS]
    envs = [{**env, "LOCAL_RANK": str(n), "RANK": str(9000 + n)} for n in range(2)]
    running = [
        subprocess.Popen(words, env=each, cwd=PACKAGE.parent, process_group=0) for each in envs
    ]
    try:
        files = [stacks.path_of(tmp_path, local) for local in range(2)]
        assert eventually(lambda: all(each.exists() and each.stat().st_size for each in files), 60)
        time.sleep(OWN_SECONDS + 0.1)
        running[1].send_signal(signal.SIGSTOP)
        words = [sys.executable, "-m", "launchers", "state", "--stacks"]
        out = subprocess.check_output(words, cwd=PACKAGE.parent, text=True)
        assert [each.poll() for each in running] == [None, None]
    finally:
        for each in running:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()
    first = out.index(f"process of rank 9000: pid {running[0].pid}, state S")
    second = out.index(f"process of rank 9001: pid {running[1].pid}, state T")
    assert " in computes\n" in out[first:second]
    assert "no stacks within" in out[second:] and out.count("process of rank 900") == 2

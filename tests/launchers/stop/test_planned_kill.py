"""The kill of a rehearsal: of one process, once, and only after a complete checkpoint."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.rehearsal.rehearsal import KILL_RECORD, KILL_VARIABLE
from launchers.stop import planned_kill
from launchers.storage import checkpoint

STEPS = """
import os
from launchers.stop.boundary import Boundary
boundary = Boundary(os.environ)
for step in (3, 4, 5):
    print("step", step, flush=True)
    boundary.end_step(step, saves=False, is_last=step == 5)
"""


def save(home: Path) -> None:
    folder = home / "checkpoints" / "checkpoint-2"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("w")
    checkpoint.seal(folder, 2)


def train(
    home: Path, local_rank: int = 0, meanwhile: Callable[[], None] = lambda: None
) -> tuple[int, str]:
    """Run three steps as a training process; return its exit code and output."""
    env = {KILL_VARIABLE: "4", "DPO_RUN_FOLDER": str(home), "LOCAL_RANK": str(local_rank)}
    words, out = [sys.executable, "-c", STEPS], subprocess.PIPE
    with subprocess.Popen(words, env={**env, "RANK": "8"}, stdout=out, text=True) as run:
        meanwhile()
        output, _ = run.communicate(timeout=60)
    return run.returncode, output


def test_the_first_process_of_the_node_ends_after_the_step_once(tmp_path: Path) -> None:
    save(tmp_path)
    assert train(tmp_path) == (-signal.SIGKILL, "step 3\nstep 4\n")
    record = json.loads((tmp_path / KILL_RECORD).read_text())
    assert (record["step"], record["rank"]) == (4, 8)
    assert train(tmp_path) == (0, "step 3\nstep 4\nstep 5\n")


def test_the_other_processes_of_the_node_live(tmp_path: Path) -> None:
    save(tmp_path)
    assert train(tmp_path, local_rank=1)[0] == 0
    assert not (tmp_path / KILL_RECORD).exists()


def test_it_waits_for_a_save_in_the_background(tmp_path: Path) -> None:
    def later() -> None:
        time.sleep(1.0)
        save(tmp_path)

    assert train(tmp_path, meanwhile=later)[0] == -signal.SIGKILL


def test_without_a_checkpoint_it_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_kill, "SAVE_TIMEOUT_SECONDS", 0.1)
    planned_kill.kill_once({"DPO_RUN_FOLDER": str(tmp_path)}, 4)
    assert not (tmp_path / KILL_RECORD).exists()

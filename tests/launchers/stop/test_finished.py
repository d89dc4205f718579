"""A process that has trained ends without the end of Python; others end as Python does."""

import subprocess
import sys
from pathlib import Path

import pytest

from launchers.system.step_board import VARIABLE, Phase, StepBoard
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

RANK = """
import atexit, sys
import torch.distributed as dist
atexit.register(lambda: print("open" if dist.is_initialized() else "ended"))
from launchers.training import loading
loading.load({"DPO_FEATURES": "heartbeat", "RANK": "1"} if sys.argv[2] == "run" else {})
if sys.argv[3] == "gloo":
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/s", rank=0, world_size=1)
    dist.barrier()
"""
TRAINED = """
import atexit
from launchers.stop import finished, uncaught
atexit.register(print, "registered before")
finished.end_at_exit()
atexit.register(print, "registered after")
finished.note_trained()
"""


LEFT = """
import sys
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from launchers.stop import finished
given = {"store": FakeStore()} if sys.argv[1] == "fake" else {"init_method": sys.argv[2]}
dist.init_process_group(sys.argv[1], rank=0, world_size=1, **given)
finished.note_trained()
dist.destroy_process_group()  # as ms-swift's pipeline
print("open" if dist.is_initialized() else "ended")
"""


@needs_training
@pytest.mark.parametrize(
    ("kind", "backend", "left"),
    [
        ("", "fake", "open"),
        *(("", "gloo", "ended"), ("run", "gloo", "ended"), ("run", "none", "ended")),
        ("other", "gloo", "open"),
    ],
)
def test_a_training_process_ends_its_groups_of_gloo_alone(
    tmp_path: Path, kind: str, backend: str, left: str
) -> None:
    words = (
        [RANK, str(tmp_path), kind, backend] if kind else [LEFT, backend, f"file://{tmp_path}/s"]
    )
    done = ended(*words, python=str(PYTHON))
    assert (done.returncode, done.stdout.split()) == (0, [left]), done.stderr


def test_a_process_that_has_trained_ends_before_python_does() -> None:
    done = ended(f"{TRAINED}\nprint('the last line')")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["the last line", "registered after"]


def test_a_process_that_has_trained_shows_it_on_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    for local in (0, 1):
        board.write(local, phase=Phase.STEP)
    monkeypatch.setenv(VARIABLE, str(board.path))
    program = "from launchers.stop import finished\nfinished.note_trained()"
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert ended(program).returncode == 0
    assert [each.is_trained for each in board.read()] == [False, True]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("raise ValueError('after training')", 1),
        ("raise KeyboardInterrupt", -2),
        ("uncaught.install()\nraise ValueError('after training')", 1),
    ],
)
def test_what_is_raised_after_the_training_keeps_its_exit_code(last: str, code: int) -> None:
    assert ended(f"{TRAINED}\n{last}").returncode == code


def ended(
    program: str, *arguments: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    words = [python, "-c", program, *arguments]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

"""Process groups end before Python does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

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


@needs_training
@pytest.mark.parametrize(
    ("kind", "backend", "left"),
    [("run", "gloo", "ended"), ("run", "none", "ended"), ("other", "gloo", "open")],
)
def test_a_training_process_ends_its_groups(
    tmp_path: Path, kind: str, backend: str, left: str
) -> None:
    done = subprocess.run(
        [str(PYTHON), "-c", RANK, str(tmp_path), kind, backend],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, [left]), done.stderr

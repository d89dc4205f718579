"""A checkpoint's seal, with transformers' own trainer."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training


@needs_training
@pytest.mark.parametrize(
    ("limit", "kept"), [(1, ["checkpoint-3"]), (2, ["checkpoint-2", "checkpoint-3"])]
)
def test_the_last_sealed_checkpoint_stays_until_the_next_is_sealed(
    tmp_path: Path, limit: int, kept: list[str]
) -> None:
    command = [str(PYTHON), "-m", "tests.launchers.training.seal_run", str(tmp_path)]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(limit)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"left": [0, 1, 2], "kept": kept}

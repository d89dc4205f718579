"""Commands of the training Python, which has torch and ms-swift, for tests."""

import os
import subprocess

from scripts.helm import ROOT
from scripts.local.runner import training_python

PYTHON = training_python(ROOT)


def in_training(*words: str, **variables: str) -> str:
    """Return the output of a command with these variables; a failure fails the test."""
    done = subprocess.run(
        [str(PYTHON), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout

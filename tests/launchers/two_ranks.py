"""A module run by the training Python as two ranks on CPU, with megatron-core's sources."""

from __future__ import annotations

import os
import subprocess

import pytest

from launchers.preflight_port import free_port
from scripts.helm import ROOT


def said(module: str) -> list[str]:
    """Return the lines that the module's ranks printed; both must have ended well."""
    python, packages = ROOT / ".tools/train/bin/python", ROOT / ".tools/oracle"
    if not python.exists() or not packages.exists():
        pytest.skip("no training environment: make setup")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{packages}", "CUDA_VISIBLE_DEVICES": ""}
    ranks = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [python, *ranks, "--master-port", str(free_port()), "-m", module],
        cwd=ROOT,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()

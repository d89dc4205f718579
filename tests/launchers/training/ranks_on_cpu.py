"""A module run by the training Python as some ranks on CPU, with megatron-core's sources."""

from __future__ import annotations

import os
import subprocess

from launchers.preflight.gang_probes import free_port
from scripts.helm import ROOT
from tests.launchers.training_environment import ORACLE, PYTHON


def said(module: str, *given: str, ranks: int = 2) -> list[str]:
    """Return the lines that the module's ranks printed; all must have ended well."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ORACLE}", "CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONUNBUFFERED"] = ""  # unbuffered ranks would write into each other's lines
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [PYTHON, *torchrun, "--master-port", str(free_port()), "-m", module, *given],
        cwd=ROOT,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()

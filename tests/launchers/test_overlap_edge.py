"""The overlap's schedule gives the losses and gradients of the plain one; two ranks on CPU."""

from __future__ import annotations

import os
import subprocess

import pytest

from launchers.preflight_port import free_port
from scripts.helm import ROOT

SHOWN = (
    "without the switch nothing is planned",
    "losses and gradients are equal bit by bit",
    "each microbatch was planned",
    "the same while gradients are added up",
    "evaluation plans nothing",
)
SWITCH = "recipe.args.megatron_extra_kwargs.overlap_moe_expert_parallel_comm"


@pytest.mark.timeout(180)
def test_the_schedule_beside_the_plain_one() -> None:
    python, packages = ROOT / ".tools/train/bin/python", ROOT / ".tools/oracle"
    if not python.exists() or not packages.exists():
        pytest.skip("no training environment: make setup")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{packages}", "CUDA_VISIBLE_DEVICES": ""}
    ranks = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [python, *ranks, "--master-port", str(free_port()), "-m", "tests.launchers.overlap_edge"],
        cwd=ROOT,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()
    assert [line for line in SHOWN if line not in said] == []
    refused = [line for line in said if line.startswith(f"refused: {SWITCH}: ")]
    assert [("Linear" in line, "pixels" in line) for line in refused] == [
        (True, False),
        (False, True),
    ]

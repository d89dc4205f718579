"""Gathered tokens give the losses and gradients of all-to-all; two ranks on CPU."""

from __future__ import annotations

import os
import subprocess

import pytest

from launchers.preflight_port import free_port
from scripts.helm import ROOT

SHOWN = (
    "packs differ between ranks",
    "packs are filled by a text that counts nowhere",
    *(
        f"torch.{kind}: {what}"
        for kind in ("float32", "bfloat16")
        for what in (
            "what fills packs changes nothing",
            "gathers",
            "adds up in its own type",
            "equal but for",
        )
    ),
    "a full pack is left alone",
    "refused: recipe.args.packing_length: ",
)


@pytest.mark.timeout(180)
def test_gathered_tokens_beside_all_to_all() -> None:
    python, packages = ROOT / ".tools/train/bin/python", ROOT / ".tools/oracle"
    if not python.exists() or not packages.exists():
        pytest.skip("no training environment: make setup")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{packages}", "CUDA_VISIBLE_DEVICES": ""}
    ranks = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [python, *ranks, "--master-port", str(free_port()), "-m", "tests.launchers.gather_edge"],
        cwd=ROOT,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []

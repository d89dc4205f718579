"""The sum of a layer and its adapter: upstream's bits, compiled for each GPU that has stacks."""

import json
import os
import subprocess
from typing import Any

import pytest

from scripts.helm import ROOT
from tests.launchers.training_environment import PINNED, needs_training

pytestmark = [needs_training, pytest.mark.real]
SHARED = 227 * 1024
"""Bytes of shared memory of a program on compute capability 9.0 and 10.0 (CUDA's guide)."""


def printed(*given: str, **env: str) -> Any:
    module = "tests.launchers.training.experts.sum_kernel"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **env}
    command = [str(PINNED.python), "-m", module, *given]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_sums_are_rounded_as_upstream_rounds_them() -> None:
    found = printed(TRITON_INTERPRET="1")
    assert len(found) == 4
    assert set(found.values()) == {0}, found


def test_the_kernel_fits_a_gpu_with_the_largest_rank() -> None:
    found = printed("compile")
    assert len(found) == 4
    assert 0 < max(found) <= SHARED

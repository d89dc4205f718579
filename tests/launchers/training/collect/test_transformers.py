"""Counts of the transformers callback, with torch and ms-swift for real."""

from __future__ import annotations

import json
import os
import subprocess

from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

COUNT = """
import json
from types import SimpleNamespace
import torch
from launchers.training.collect.transformers import MetricsCallback
args, trainer = SimpleNamespace(device="cpu"), SimpleNamespace(template=None)
callback, mask = MetricsCallback(args, trainer), torch.tensor([[1, 1, 0], [1, 1, 1]])
kto = {"completion_attention_mask": mask, "KL_completion_attention_mask": mask}
print(json.dumps([callback._counted(b).tolist() for b in ({"attention_mask": mask}, kto, {})]))
"""


@needs_training
def test_tokens_are_counted_without_padding_and_in_kto_without_the_kl_rows() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [str(PYTHON), "-c", COUNT]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[5.0, 13.0, 2.0], [5.0, 13.0, 2.0], [0.0, 0.0, 0.0]]

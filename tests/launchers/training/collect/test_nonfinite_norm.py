"""The norms and losses of the transformers trainer that end a run, among stubs of ms-swift."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

pytestmark = [needs_training, pytest.mark.timeout(600)]
STUBS = {
    "swift/callbacks/base.py": "class TrainerCallback:\n    pass\n",
    "swift/callbacks/mapping.py": "callbacks_map = {}\n",
}
JUDGE = """
from math import nan
from types import SimpleNamespace as Names
import torch
from launchers.exits import LaunchError
from launchers.training.collect.nonfinite_transformers import CURRENT, NonFiniteCallback

def judged(norm, loss, deepspeed, fp16):
    callback = NonFiniteCallback()
    callback.trainer = Names(
        is_deepspeed_enabled=deepspeed, args=Names(fp16=fp16), accelerator=Names(scaler=None)
    )
    callback.norm = lambda: norm
    CURRENT.losses[:] = [torch.tensor(loss)]
    try:
        return f"norm {callback.judged()}"
    except LaunchError as error:
        return f"{error.id} {error.cause}"

for case in CASES:
    print(judged(*case))
"""
CASES = {
    # norm, loss, DeepSpeed, fp16: what ends the run
    "(-1.0, 0.7, True, False)": "value-not-finite NaN in the norm of the gradients",  # masked
    "(torch.tensor(nan), 0.7, False, False)": "value-not-finite NaN in the norm of the gradients",
    "(None, nan, True, False)": "value-not-finite NaN in the loss",
    "(-1.0, nan, True, True)": "value-not-finite NaN in the loss",
    "(0.5, 0.7, True, False)": "norm 0.5",
    "(0.0, 0.7, False, False)": "norm 0.0",
    "(None, 0.7, False, False)": "norm None",
    "(-1.0, 0.7, True, True)": "norm -1.0",  # its scaler skips the step
}


def test_a_step_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    fake_upstream.lay(tmp_path, STUBS)
    program = JUDGE.replace("CASES", f"({', '.join(CASES)})")
    found = fake_upstream.run(tmp_path, program).splitlines()
    assert [
        given
        for given, line, wanted in zip(CASES, found, CASES.values(), strict=True)
        if not line.startswith(wanted)
    ] == []

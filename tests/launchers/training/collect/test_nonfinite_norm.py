"""The norms and losses of the transformers trainer that end a run, among stubs of ms-swift."""

from collections.abc import Iterable
from pathlib import Path

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
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

ZERO = """
from types import SimpleNamespace as Names
import torch
from launchers.exits import LaunchError
from launchers.training.collect.batch_rows import judge_zeros
from launchers.training.collect.nonfinite_transformers import CURRENT, NonFiniteCallback

def steps(norm, deepspeed, fp16, gradient):
    callback, weight = NonFiniteCallback(), torch.nn.Parameter(torch.zeros(2))
    weight.grad = gradient
    judge_zeros()
    callback.trainer = Names(
        is_deepspeed_enabled=deepspeed, args=Names(fp16=fp16), accelerator=Names(scaler=None),
        model=Names(parameters=lambda: [weight]),
    )
    callback.state, callback.norm = Names(max_steps=100), lambda: norm
    for step in range(9):
        try:
            callback.judged()
        except LaunchError as error:
            return f"{step + 1} {error.id}"
    return "9"

for case in CASES:
    print(steps(*case))
"""
ZERO_CASES = {
    # norm, DeepSpeed, fp16, a weight's gradient: steps, and what ends the run
    "(torch.tensor(0.0), False, False, torch.zeros(2))": "5 gradient-zero",
    "(torch.tensor(1e-9), False, False, torch.zeros(2))": "9",
    "(torch.tensor(0.0), False, False, None)": "9",  # the optimizer has freed it: LOMO
    "(0.0, True, False, None)": "5 gradient-zero",
    "(0.0, True, True, None)": "9",  # its scaler has skipped the steps
}


def found(folder: Path, program: str, cases: Iterable[str]) -> list[str]:
    """Return a line that a program prints for each case."""
    program = program.replace("CASES", f"({', '.join(cases)},)")
    return fake_upstream.run(folder, program, STUBS).splitlines()


def test_gradients_of_0_end_a_run_whose_optimizer_keeps_them(tmp_path: Path) -> None:
    assert found(tmp_path, ZERO, ZERO_CASES) == [*ZERO_CASES.values()]


def test_a_step_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    for line, (given, wanted) in zip(found(tmp_path, JUDGE, CASES), CASES.items(), strict=True):
        assert line.startswith(wanted), given

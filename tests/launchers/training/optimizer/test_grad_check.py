"""NaN and Inf found once a step, around stand-ins of megatron-core's buckets and norm."""

from pathlib import Path

import pytest

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

pytestmark = needs_training

BUCKETS = """
class _ParamAndGradBucketGroup:
    def __init__(self, buckets, params): self.buckets, self.params = buckets, params
    def check_grads(self, check_for_nan_or_inf, check_for_large): print("upstream's own check")
"""
NORM = """
import torch
def get_grad_norm_fp32(grads, grad_stats_parallel_group=None):
    return float(torch.stack([grad.norm() for grad in grads]).norm())
"""
LAYER_WISE = """
from megatron.core.optimizer.clip_grads import get_grad_norm_fp32
class LayerWiseDistributedOptimizer:
    def __init__(self, grads): self.grads = grads
    def get_grad_norm(self): return get_grad_norm_fp32(self.grads, grad_stats_parallel_group=None)
"""
RERUN = """
from enum import Enum
from types import SimpleNamespace
class RerunMode(str, Enum):
    DISABLED = "disabled"
    VALIDATE_RESULTS = "validate"
MODE = RerunMode.DISABLED
def get_rerun_state_machine(): return SimpleNamespace(mode=MODE)
"""
BEGIN = """
from types import SimpleNamespace
import torch
torch.distributed.get_rank = lambda: 3
from megatron.core import rerun_state_machine
from megatron.core.distributed.param_and_grad_buffer import _ParamAndGradBucketGroup
from megatron.core.optimizer import optimizer
try: from megatron.core.optimizer import layer_wise_optimizer
except ImportError: pass
import launchers.training.optimizer.grad_check as ours
from launchers.exits import LaunchError
from launchers.training.collect.batch_rows import CURRENT
ours.GRACE_SECONDS = 0
ours.install()
CURRENT.dataset = SimpleNamespace(packed_idx=[[4, 9], [2], [7, 0]])
CURRENT.drawn.extend([[1], [2], [0]])  # the last belongs to the next step
CURRENT.begin(12, 2)
grads = [torch.ones(4), torch.ones(4)]
weights = {torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))}
group = _ParamAndGradBucketGroup([SimpleNamespace(grad_data=grad) for grad in grads], weights)
def step(large=False):
    group.check_grads(True, large)
    try:
        print(round(optimizer.get_grad_norm_fp32(grads), 3))
    except LaunchError as error:
        print(error.code.name, error.id, error)
"""


def printed(folder: Path, program: str, *, layer_wise: bool = False) -> list[str]:
    core = "megatron/core"
    files = {
        f"{core}/distributed/param_and_grad_buffer.py": BUCKETS,
        f"{core}/optimizer/clip_grads.py": NORM,
        f"{core}/optimizer/optimizer.py": "from .clip_grads import get_grad_norm_fp32",
        f"{core}/optimizer/__init__.py": "",
        f"{core}/rerun_state_machine.py": RERUN,
    }
    if layer_wise:
        files[f"{core}/optimizer/layer_wise_optimizer.py"] = LAYER_WISE
    return fake_upstream.run(folder, BEGIN + program, files).splitlines()


def test_rank_bucket_step_and_rows_are_reported_before_weights_change(tmp_path: Path) -> None:
    program = "step()"
    for bad in ("nan", "inf", "-inf"):
        program += f"; grads[1][2] = float('{bad}'); step()"
    good, *said = printed(tmp_path, program)
    assert good == "2.828"
    for line, kind in zip(said, ("NaN", "Inf", "Inf"), strict=True):
        begin = f"DATA value-not-finite {kind} in the gradients of bucket 1 on rank 3 "
        assert line.startswith(begin)
        assert "at step 12, rows 0, 2, 7 of the tokenised training dataset" in line


def test_a_rank_whose_own_gradients_are_finite_says_so_and_a_good_step_forgets(
    tmp_path: Path,
) -> None:
    # the norm of all ranks' gradients; another rank's are not finite
    program = "grads.append(torch.full((4,), torch.nan)); step()\n"
    program += "grads.pop(); grads[0][0] = torch.nan; step(); grads[0][0] = 1; step()"
    other, own, good = printed(tmp_path, program)
    begin = "DATA value-not-finite-elsewhere the norm of all gradients is nan at step 12"
    assert other.startswith(begin) and "bucket 0" in own and good == "2.828"


LEFT = {
    "large gradients": "step(large=True)",
    "reruns": "rerun_state_machine.MODE = rerun_state_machine.RerunMode.VALIDATE_RESULTS; step()",
    "weights that the norm leaves out": "next(iter(weights)).grad_norm_group = 'mtp'; step()",
}


@pytest.mark.parametrize("program", LEFT.values(), ids=LEFT)
def test_what_another_check_needs_is_left_to_upstream(tmp_path: Path, program: str) -> None:
    assert printed(tmp_path, program) == ["upstream's own check", "2.828"]


def test_the_norm_of_dist_muon_is_checked_too(tmp_path: Path) -> None:
    program = """
from megatron.core.optimizer.layer_wise_optimizer import LayerWiseDistributedOptimizer
muon = LayerWiseDistributedOptimizer(grads)
print(round(muon.get_grad_norm(), 3))
grads[1][2] = float("nan")
group.check_grads(True, False)
try:
    print(muon.get_grad_norm())
except LaunchError as error:
    print(error)
"""
    good, bad = printed(tmp_path, program, layer_wise=True)
    assert good == "2.828"
    assert "NaN in the gradients of bucket 1 on rank 3" in bad

"""The experts' gradients as one product, against autograd's, with torch on CPU among stand-ins."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

pytestmark = needs_training

FILES = {
    "megatron/core/tensor_parallel/random.py": "def is_checkpointing(): return False",
    "megatron/core/distributed/__init__.py": """
import torch
class DistributedDataParallel(torch.nn.Module): pass
""",
    "megatron/core/extensions/transformer_engine.py": """
from types import SimpleNamespace
import torch
class TEGroupedLinear(torch.nn.Module):
    def __init__(self, count, width_in, width_out, dtype=torch.bfloat16):
        super().__init__()
        self.num_gemms, self.use_bias = count, False
        self.config = SimpleNamespace(fp8=None, fp4=None)
        self.wgrad_store = SimpleNamespace(delay_wgrad_compute=lambda: False)
        for n in range(count):
            weight = torch.nn.Parameter(torch.randn(width_out, width_in).to(dtype))
            self.register_parameter(f"weight{n}", weight)
    def forward(self, rows, splits):
        parts = zip(self.parameters(), rows.split(splits))
        return torch.cat([part @ weight.T for weight, part in parts]), "upstream"
""",
    "transformer_engine/pytorch/cpp_extensions/__init__.py": """
def general_grouped_gemm(
    weights, rows, out, quantizers, dtype, *, layout, m_splits, grad, single_output
):
    assert single_output and quantizers[0] is None and grad == (layout == "NN")
    at = 0
    for weight, part in zip(weights, rows):
        out[0][at : at + len(part)] = part @ (weight if layout == "NN" else weight.T)
        at += len(part)
""",
    "swift/megatron/trainers/base.py": """
def wrap_model(args, models): return models
""",
}
BEGIN = """
import json
from types import SimpleNamespace
import torch
torch.cuda.get_device_capability = lambda: (MAJOR, 0)
torch.manual_seed(7)
from megatron.core.distributed import DistributedDataParallel
from megatron.core.extensions.transformer_engine import TEGroupedLinear
from launchers.training.experts import grouped_product, grouped_weights, remade_rows
grouped_product.install()
from swift.megatron.trainers import base
exact = torch._grouped_mm
def unsupported(a, b, *, offs):  # as on compute capability 10
    out = exact(a, b, offs=offs)
    if out.dim() == 3:
        out[[n for n, end in enumerate(offs) if end == (offs[n - 1] if n else 0)]] = float("nan")
    return out
torch._grouped_mm = unsupported

class Group:
    is_last_microbatch = False
    def __init__(self): self.ready = []
    def register_grad_ready(self, weight, force): self.ready.append((id(weight), force))

def wrapped(module, overlap=True):
    model = DistributedDataParallel()
    model.fc1 = module
    group = Group()
    model.param_to_bucket_group = {weight: group for weight in module.parameters()}
    model.ddp_config = SimpleNamespace(overlap_grad_reduce=overlap)
    model.force_all_reduce = False
    own = list(module.parameters())
    gradients = torch.zeros(len(own), *own[0].shape, dtype=GRADS)
    for weight, gradient in zip(own, gradients):
        weight.main_grad = gradient if ORDERED else gradient.clone()
    if ORDERED:
        for weight, moved in zip(own, torch.stack([each.data for each in own])):
            weight.data = moved
        grouped_weights.general_grouped_gemm = None
    base.wrap_model(None, [model])
    return group

splits = [3, 0, 5, 8]
module = TEGroupedLinear(4, 16, 24)
rows = torch.randn(16, 16).bfloat16().requires_grad_()
grad = torch.randn(16, 24).bfloat16()
"""
COMPARE = """
upstream = module(rows, splits)[0]
expected = torch.autograd.grad(upstream, [rows, *module.parameters()], grad)
group = wrapped(module)
def apart(found, exact):
    exact = exact.float()
    return float((found.float() - exact).abs().max() / exact.abs().max().clamp(min=1))
for microbatch in range(2):
    group.is_last_microbatch = microbatch == 1
    rows.grad = None
    if microbatch:
        remade_rows.note(rows, lambda: rows.detach())
    out, said = module(rows, splits)
    kept = len(out.grad_fn.saved_tensors)
    out.backward(grad)
grads = [apart(w.main_grad, 2 * e) for w, e in zip(module.parameters(), expected[1:])]
print(json.dumps({
    "said": said,
    "worst": max(apart(out, upstream), apart(rows.grad, expected[0]), *grads),
    "ready": group.ready == [(id(w), False) for w in module.parameters()],
    "left": [w.grad is None for w in module.parameters()],
    "kept": [kept, out.grad_fn.again],
    "empty": float(module.weight1.main_grad.float().abs().max()),
}))
"""


def seen(
    folder: Path, program: str, major: int = 9, grads: str = "torch.bfloat16", ordered: bool = False
) -> Any:
    """Run a program; the weights of its layer follow each other in memory or do not."""
    begin = BEGIN.replace("MAJOR", str(major)).replace("GRADS", grads)
    begin = begin.replace("ORDERED", str(ordered))
    return json.loads(fake_upstream.run(folder, begin + program, FILES))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("grads", ["torch.bfloat16", "torch.float32"])
def test_gradients_are_autograds_and_their_owner_hears_once_a_step(
    tmp_path: Path, grads: str, ordered: bool
) -> None:
    found = seen(tmp_path, COMPARE, grads=grads, ordered=ordered)
    assert found["said"] is None and found["empty"] == 0
    assert found["worst"] < 0.02  # bf16
    assert found["ready"] and all(found["left"])
    assert found["kept"] == [0, None]  # of rows that are made again: before and after


def test_without_a_graph_nothing_is_kept(tmp_path: Path) -> None:
    program = """
before = module(rows, splits)[0]
wrapped(module)
with torch.no_grad():
    after, said = module(rows, splits)
print(json.dumps([said, after.requires_grad, torch.equal(before, after)]))
"""
    assert seen(tmp_path, program) == [None, False, True]


CHANGES = {
    "a bias": "module.use_bias = True",
    "fp8": "module.config.fp8 = 'hybrid'",
    "weights' gradients later": "module.wgrad_store.delay_wgrad_compute = lambda: True",
    "a frozen weight": "module.weight2.requires_grad_(False)",
    "a rank of 12": "module = TEGroupedLinear(4, 16, 12)",
    "fp32": "module, rows = TEGroupedLinear(4, 16, 24, torch.float32), rows.float()",
}


FROZEN = """
before = [weight.detach().clone() for weight in module.parameters()]
module.requires_grad_(False)
upstream = module(rows, splits)[0]
expected = torch.autograd.grad(upstream, rows, grad)[0]
wrapped(module)
out, said = module(rows, splits)
kept = len(out.grad_fn.saved_tensors)
out.backward(grad)
side = vars(module)["one_product"].side
print(json.dumps({
    "said": said,
    "worst": max(float((out - upstream).abs().max()), float((rows.grad - expected).abs().max())),
    "same": all(torch.equal(a, b) for a, b in zip(module.parameters(), before)),
    "moved": all(w.data_ptr() == part.data_ptr() for w, part in zip(module.parameters(), side)),
    "untouched": all(w.grad is None and not w.main_grad.any() for w in module.parameters()),
    "kept": kept,
}))
"""


def test_frozen_weights_are_moved_side_by_side_and_give_the_rows_gradient_alone(
    tmp_path: Path,
) -> None:
    found = seen(tmp_path, FROZEN)
    assert found.pop("worst") < 0.07  # bf16, outputs of 4 on average
    assert found == {"said": None, "same": True, "moved": True, "untouched": True, "kept": 0}


@pytest.mark.parametrize("ordered", [False, True])
def test_weights_are_trained_also_where_their_rows_need_no_gradient(
    tmp_path: Path, ordered: bool
) -> None:
    program = """
wrapped(module)
module(rows.detach(), splits)[0].backward(grad)
print(json.dumps([float(weight.main_grad.float().norm()) for weight in module.parameters()]))
"""
    first, empty, *others = seen(tmp_path, program, ordered=ordered)
    assert empty == 0 and min(first, *others) > 0


NOTHING = """
module.requires_grad_(TRAINED)
wrapped(module)
rows = rows[:0].detach().requires_grad_()
out, said = module(rows, [0, 0, 0, 0])
out.backward(grad[:0])
untouched = all(not weight.main_grad.any() for weight in module.parameters())
print(json.dumps([said, list(out.shape), list(rows.grad.shape), untouched]))
"""


@pytest.mark.parametrize(("trained", "ordered"), [("True", True), ("False", False)])
def test_a_gpu_to_which_no_token_comes_has_nothing_to_multiply(
    tmp_path: Path, trained: str, ordered: bool
) -> None:
    found = seen(tmp_path, NOTHING.replace("TRAINED", trained), ordered=ordered)
    assert found == [None, [0, 24], [0, 16], True]


def test_what_does_not_fit_is_left_to_upstream(tmp_path: Path) -> None:
    program = "found = {}\nkept = rows\n"
    for name, change in CHANGES.items():
        program += f"module, rows = TEGroupedLinear(4, 16, 24), kept\n{change}\nwrapped(module)\n"
        program += f"found[{name!r}] = module(rows, splits)[1]\n"
    found = seen(tmp_path, program + "print(json.dumps(found))")
    assert found == dict.fromkeys(CHANGES, "upstream")


def test_a_gpu_without_such_a_kernel_is_left_to_upstream(tmp_path: Path) -> None:
    program = "wrapped(module)\nprint(json.dumps(module(rows, splits)[1]))"
    assert seen(tmp_path, program, major=8) == "upstream"


def test_the_owner_is_not_notified_where_reduction_is_not_overlapped(tmp_path: Path) -> None:
    program = """
group = wrapped(module, overlap=False)
group.is_last_microbatch = True
module(rows, splits)[0].backward(grad)
print(json.dumps(len(group.ready)))
"""
    assert seen(tmp_path, program) == 0

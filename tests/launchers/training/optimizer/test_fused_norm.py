"""The gradients' norm on Transformer Engine's kernels, among fakes of both packages."""

from pathlib import Path

import pytest

from tests.launchers.training import fake_upstream

ENGINE = "multi_tensor_applier = 'applier'\nmulti_tensor_l2norm = 'norm'\n"
SCALE = "multi_tensor_scale = 'scale'\n"
LOCAL = "from megatron.core.utils import local as multi_tensor_applier\n"
LOCAL += "l2_norm_impl = multi_tensor_scale_impl = multi_tensor_applier\n"
OTHER = "def l2_norm_impl(): pass\nmulti_tensor_applier = multi_tensor_scale_impl = l2_norm_impl\n"
SHOW = "print(c.multi_tensor_applier, c.l2_norm_impl, c.multi_tensor_scale_impl)"


def seen(folder: Path, engine: str, clip: str) -> str:
    files = {
        "megatron/core/optimizer/clip_grads.py": clip,
        "megatron/core/optimizer/__init__.py": "",
        "megatron/core/utils.py": "def local(): pass\n",
        "transformer_engine/pytorch/optimizers.py": engine,
    }
    program = "from launchers.training.optimizer import fused_norm; fused_norm.install()\n"
    program += f"from megatron.core.optimizer import clip_grads as c; {SHOW}"
    return fake_upstream.run(folder, program, files, torch=False)


def test_the_fallback_is_replaced(tmp_path: Path) -> None:
    assert seen(tmp_path, ENGINE + SCALE, LOCAL) == "applier norm scale"


@pytest.mark.parametrize(
    ("engine", "clip"),
    [
        (ENGINE + SCALE, OTHER),  # Apex's, or Transformer Engine's own by now
        (ENGINE, LOCAL),  # an older Transformer Engine
        (ENGINE + SCALE, LOCAL.replace("l2_norm_impl", "norm_impl")),  # another megatron-core
    ],
)
def test_what_is_not_the_known_fallback_stays(tmp_path: Path, engine: str, clip: str) -> None:
    if "l2_norm_impl" not in clip:
        clip += "l2_norm_impl = None\n"
    before = seen(tmp_path, engine, clip).split()
    assert "applier" not in before and "norm" not in before

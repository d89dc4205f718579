"""A value whose package the image lacks is named before anything is downloaded."""

from typing import Any

import pytest

from launchers.config.recipe import Recipe
from launchers.flags import installed, packages
from tests.launchers.training_environment import needs_training, swift_classes


def lacking(backend: Any, args: dict[str, Any], *there: str) -> list[str]:
    recipe = Recipe(backend=backend, task="sft", model="m", dataset=("d",), args=args)
    return [each.path.rpartition(".")[2] for each in packages.missing(recipe, there.__contains__)]


@pytest.mark.parametrize(
    ("args", "there", "flags"),
    [
        ({"deepspeed": {"zero_optimization": {"stage": 2}}}, (), ["deepspeed"]),
        ({"deepspeed": "zero3"}, ("deepspeed",), []),
        ({"quant_method": "bnb"}, (), ["quant_method"]),
        ({"use_liger_kernel": "True"}, (), ["use_liger_kernel"]),
        ({"use_liger_kernel": "false"}, (), []),
        ({"attn_impl": "flash_attn"}, (), ["attn_impl"]),
        ({"attn_impl": "flash_attention_2"}, ("kernels",), []),
        ({"attn_impl": "sdpa"}, (), []),
        ({"optim": "galore_adamw_8bit"}, ("bitsandbytes",), ["optim"]),
        ({"optim": "paged_adamw_8bit"}, (), ["optim"]),
        ({"optim": "adamw_8bit"}, (), ["optim"]),
        ({"optim": "adamw_torch_fused"}, (), []),
        ({"optim": "adamw_torch_8bit"}, (), ["optim"]),
        ({"report_to": ["wandb", "tensorboard"]}, (), ["report_to"]),
        ({}, (), []),
    ],
)
def test_the_value_is_named_and_not_one_that_needs_nothing(
    args: dict[str, Any], there: tuple[str, ...], flags: list[str]
) -> None:
    assert lacking("transformers", args, *there) == flags


@needs_training
def test_each_flag_is_one_of_ms_swift() -> None:
    classes = swift_classes()
    known = installed.flags(classes, installed.ENTRIES["transformers"]["rlhf"])
    assert {flag for flag, *_ in packages.NEEDED} <= set(known)

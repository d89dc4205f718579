"""Packages that a flag's value needs and that not every training image has.

ms-swift asks for them after the model is loaded, with an exception whose exit code restarts.
"""

import importlib.util
import re
from collections.abc import Callable, Iterator

from launchers.config.flag_value import YES, as_text
from launchers.config.recipe import TRACKERS, Recipe
from launchers.refusal import Refusal

_ON = f"(?i:{'|'.join(YES)})"
_FLASH_2 = "flash_attn|flash_attention_2"
NEEDED: tuple[tuple[str, str, str, str], ...] = (
    ("deepspeed", ".+", "deepspeed", "deepspeed"),
    ("quant_method", "bnb", "bitsandbytes", "bitsandbytes"),
    ("quant_method", "hqq", "hqq", "hqq"),
    ("quant_method", "eetq", "eetq kernels", "eetq"),
    ("quant_method", "quanto", "optimum", "optimum-quanto"),
    ("use_liger_kernel", _ON, "liger_kernel", "liger-kernel"),
    ("attn_impl", _FLASH_2, "flash_attn kernels", "flash-attn"),
    ("attn_impl", "flash_attention_3", "flash_attn_interface kernels", "flash-attn-3"),
    ("attn_impl", "kernels-.*", "kernels", "kernels"),
    ("galore_quantization", _ON, "q_galore_torch", "q-galore-torch"),
    ("optim", "galore_.*", "galore_torch", "galore-torch"),
    ("optim", "apollo_.*", "apollo_torch", "apollo-torch"),
    ("optim", "(ada)?lomo", "lomo_optim", "lomo-optim"),
    ("optim", "grokadamw", "grokadamw", "grokadamw"),
    ("optim", "schedule_free_.*", "schedulefree", "schedulefree"),
    ("optim", "stable_adamw", "optimi", "torch-optimi"),
    ("optim", "adamw_torch_[48]bit", "torchao", "torchao"),
    ("optim", "(adamw|rmsprop)_bnb.*|(adamw|rmsprop)_(8|32)bit", "bitsandbytes", "bitsandbytes"),
    ("optim", "(paged|ademamix|lion).*", "bitsandbytes", "bitsandbytes"),
    ("tuner_backend", "unsloth", "unsloth", "unsloth"),
    ("tuner_type", "reft", "pyreft", "pyreft"),
    ("use_vllm", _ON, "vllm", "vllm"),
    *(("report_to", name, name, name) for name in TRACKERS),
)
"""Flag, pattern of a value, modules of which one must be there, and what to install. Sources:
ms-swift ``arguments/sft_args.py``, ``trainers/arguments.py``, ``optimizers/galore/utils.py``;
transformers ``trainer_optimizer.py``, ``quantizers``, ``modeling_utils.py`` (``kernels`` stands for
attention from the hub)."""


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def missing(
    recipe: Recipe, is_installed: Callable[[str], bool] = _is_installed
) -> Iterator[Refusal]:
    """Yield a message for each value whose package the image lacks.

    >>> recipe = Recipe(backend="transformers", task="sft", model="m", dataset=("d",),
    ...                 args={"deepspeed": "zero2"})
    >>> str(next(missing(recipe, lambda module: False)))
    'recipe.args.deepspeed: zero2 needs the package deepspeed, which the image lacks; use an image \
with it, or remove the flag [package-missing]'
    """
    for flag, pattern, modules, package in NEEDED:
        given = recipe.args.get(flag, "")
        words = recipe.reports_to if flag == "report_to" else [as_text(given)]
        for word in words:
            if not re.fullmatch(pattern, word) or any(map(is_installed, modules.split())):
                continue
            shown = word if len(word) < 40 else "it"
            says = (
                f"{shown} needs the package {package}, which the image lacks; use an image with "
                "it, or remove the flag"
            )
            id = "tracker-missing" if flag == "report_to" else "package-missing"
            yield Refusal(id=id, path=f"recipe.args.{flag}", says=says)

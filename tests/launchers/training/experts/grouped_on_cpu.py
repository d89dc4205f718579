"""megatron-core's grouped layers on CPU, above a stand-in for Transformer Engine's.

``enter`` defines them from megatron-core's source, with their parts of a checkpoint. All products
are made expert by expert, also those that stand for ``torch._grouped_mm``, so that equal bits are
expected of both.
"""

import ast
import importlib
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.launchers.training.optimizer import narrow_moments_ranks

GROUPED = ("TEGroupedLinear", "TEColumnParallelGroupedLinear", "TERowParallelGroupedLinear")


class GroupedLinear(torch.nn.Module):  # type: ignore[misc]
    """Stands for Transformer Engine's."""

    def __init__(self, num_gemms: int, in_features: int, out_features: int, **named: Any) -> None:
        super().__init__()
        self.num_gemms, self.use_bias = num_gemms, named["bias"]
        self.in_features, self.out_features = in_features, out_features
        self.wgrad_store = SimpleNamespace(delay_wgrad_compute=lambda: False)
        self.fp8 = self.fp8_calibration = False
        self.fp8_meta = {"fp8_checkpoint": False}
        for n in range(num_gemms):
            weight = torch.empty(out_features, in_features, dtype=named["params_dtype"])
            self.register_parameter(f"weight{n}", torch.nn.Parameter(weight))
            named["init_method"](weight)

    def forward(self, rows: Any, splits: list[int], **_: Any) -> Any:
        weights = [getattr(self, f"weight{n}") for n in range(self.num_gemms)]
        parts = zip(weights, rows.split(splits), strict=True)
        return torch.cat([part @ weight.T for weight, part in parts])

    def init_fp8_metadata(self, **_: Any) -> None:
        """Nothing is quantized."""

    def get_extra_state(self) -> torch.Tensor:
        """Return an empty state, as without FP8."""
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, _: Any) -> None:
        """Nothing is kept."""


def grouped(a: torch.Tensor, b: torch.Tensor, *, offs: torch.Tensor) -> torch.Tensor:
    """Stand for ``torch._grouped_mm``: expert by expert, NaN where compute capability 10 has it."""
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    if b.dim() == 3:
        return torch.cat([a[i:j] @ each for (i, j), each in zip(spans, b, strict=True)])
    empty = torch.full((a.shape[0], b.shape[1]), float("nan"), dtype=a.dtype)
    return torch.stack([a[:, i:j] @ b[i:j] if j > i else empty for i, j in spans])


def gemms(weights: Any, rows: Any, out: Any, *_: Any, layout: str, **__: Any) -> None:
    """Stand for Transformer Engine's grouped GEMM."""
    sides = [each if layout == "NN" else each.T for each in weights]
    out[0].copy_(torch.cat([part @ side for part, side in zip(rows, sides, strict=True)]))


def enter(engine: Path) -> None:
    """Define megatron-core's grouped layers above the stand-in, then enter."""
    importlib.import_module("peft.tuners.lora")
    core: Any = importlib.import_module("megatron.core.extensions.transformer_engine")
    tree = ast.parse(Path(core.__file__).read_text())
    classes: list[ast.stmt] = [
        each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name in GROUPED
    ]
    core.te = SimpleNamespace(pytorch=SimpleNamespace(GroupedLinear=GroupedLinear))
    exec(compile(ast.Module(classes, []), core.__file__, "exec"), vars(core))
    narrow_moments_ranks.enter(engine)
    products: Any = types.ModuleType("transformer_engine.pytorch.cpp_extensions")
    products.general_grouped_gemm = gemms
    sys.modules[products.__name__] = products
    adapters: Any = importlib.import_module("mcore_bridge.tuners.lora")
    for name in [name for name in vars(adapters) if name.startswith("TE")]:
        if not isinstance(getattr(adapters, name), type):
            setattr(adapters, name, type(name, (torch.nn.Module,), {}))
    cuda: Any = torch.cuda
    cuda.get_device_capability, cuda.synchronize = (lambda *_: (9, 0)), (lambda *_: None)
    vars(torch)["_grouped_mm"] = grouped
    sums: Any = importlib.import_module("launchers.training.experts.adapter_sum")
    sums.WIDEST = 0  # no kernel: Triton's compiler needs a GPU

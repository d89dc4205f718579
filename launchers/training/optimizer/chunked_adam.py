"""Let Transformer Engine's FusedAdam step a few tensors at a time.

Where ``FusedAdam.step`` converts a group's moments itself (``get_unscaled_state``), it first makes
fp32 copies of all that are not fp32: 8 bytes for each local parameter at once, more than narrow
moments save. So a group is cut by elements. It also converts each tensor by six kernels of its
own, which for 3,000 weights of experts takes longer than the step: moments in bf16 are widened and
narrowed here by one call for all tensors of a part. TE 2.12 does so for all narrow moments, later
versions where only one of the two is bf16, and for fp16 and fp8.

Since TE 2.13 two moments in bf16 are read and written by the kernel (``fuse_unscale``): nothing is
copied, and only the number of tensors is cut (``step_parts.py``: ``TENSORS``).

The arithmetic is elementwise: the result is the same, bit by bit, however a group is cut
(tests/launchers/training/optimizer/test_chunked_adam.py; tests/bench/notes/kernels.md).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformer_engine.pytorch.optimizers import FusedAdam

from launchers.plan.memory import CHUNK
from launchers.training.optimizer.step_parts import TENSORS, parts

MOMENTS = ("exp_avg", "exp_avg_sq")

_step: Callable[..., Any] = FusedAdam.step


def step(self: Any, closure: Callable[[], Any] | None = None, grad_scaler: Any = None) -> Any:
    """Step each part of each group, all as the same step."""
    if self.capturable:  # its counter is a tensor, which a part would move on in place
        return _step(self, closure, grad_scaler)
    loss = closure() if closure is not None else None
    limit = CHUNK if _copies(self) else sys.maxsize
    groups = self.param_groups
    try:
        for group in groups:
            counted = {}
            # an empty group is handed on, too: since TE 2.19 its step is counted
            for part in parts([p.numel() for p in group["params"]], limit, TENSORS) or [slice(0)]:
                self.param_groups = [{**group, "params": group["params"][part]}]
                with _widened(self, group["params"][part]):
                    _step(self, None, grad_scaler)
                counted = {k: v for k, v in self.param_groups[0].items() if k == "step"}
            group.update(counted)
    finally:
        self.param_groups = groups
    return loss


def _fuses(adam: Any) -> bool:
    """Return whether the kernel itself reads and writes moments in bf16 (TE >= 2.13, both bf16)."""
    return bool(getattr(adam, "fuse_unscale", False))


def _copies(adam: Any) -> bool:
    """Return whether a step makes fp32 copies of a group's state."""
    narrow = [name for name, dtype in adam.name_to_dtype_map.items() if dtype != torch.float32]
    if not adam.master_weights:
        narrow = [name for name in narrow if name in MOMENTS]
    return any(not (_fuses(adam) and name in MOMENTS) for name in narrow)


@contextmanager
def _widened(adam: Any, weights: list[Any]) -> Iterator[None]:
    """Hand the step fp32 copies of its bf16 moments, and store what it made of them.

    Two of the optimizer's own methods are covered for that time: the one that widens a tensor
    looks it up, the one that narrows it has nothing to do. Does nothing where the kernel takes
    bf16 itself.
    """
    names = [name for name in MOMENTS if adam.name_to_dtype_map[name] == torch.bfloat16]
    if _fuses(adam) or not names or not weights:
        yield
        return
    for weight in weights:
        if not adam.state[weight]:
            remainders = adam.store_param_remainders and weight.dtype == torch.bfloat16
            adam.initialize_state(weight, remainders)
    keys = [(weight, name) for weight in weights for name in names]
    narrow = [adam.state[weight][name] for weight, name in keys]
    room = torch.empty(sum(t.numel() for t in narrow), device=narrow[0].device)
    wide = [
        flat.view_as(t)
        for flat, t in zip(room.split([t.numel() for t in narrow]), narrow, strict=True)
    ]
    torch._foreach_copy_(wide, narrow)
    found = {(id(weight), name): t for (weight, name), t in zip(keys, wide, strict=True)}
    whole, apply = adam.get_unscaled_state, adam._apply_scale

    def get_unscaled_state(weight: Any, name: str, *given: Any, **named: Any) -> Any:
        return found[id(weight), name] if name in names else whole(weight, name, *given, **named)

    def _apply_scale(name: str, *tensors: Any) -> None:
        if name not in names:
            apply(name, *tensors)

    adam.get_unscaled_state, adam._apply_scale = get_unscaled_state, _apply_scale
    try:
        yield
    finally:
        del adam.get_unscaled_state, adam._apply_scale
    torch._foreach_copy_(narrow, wide)


def install() -> None:
    """Replace ``FusedAdam.step``."""
    FusedAdam.step = step

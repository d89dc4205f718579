"""Let Transformer Engine's FusedAdam step a few tensors at a time.

``FusedAdam.step`` makes fp32 copies of all moments of a group that are not fp32 before it begins
(TE 2.12 ``pytorch/optimizers/fused_adam.py``, ``get_unscaled_state``): 8 bytes for each local
parameter at once, more than narrow moments save. The arithmetic is elementwise: the result is the
same, bit by bit, however a group is cut (tests/gpu/kernels/adam.py).

It also converts each tensor by six kernels of its own, which for 3,000 weights of
experts takes longer than the step: moments in bf16 are widened and narrowed here by one call for
all tensors of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformer_engine.pytorch.optimizers import FusedAdam

from launchers.plan.optimizer_parts import parts

MOMENTS = ("exp_avg", "exp_avg_sq")

_step: Callable[..., Any] = FusedAdam.step


def step(self: Any, closure: Callable[[], Any] | None = None, grad_scaler: Any = None) -> Any:
    """Step each part of each group, all as the same step."""
    if self.capturable:  # its counter is a tensor, which a part would move on in place
        return _step(self, closure, grad_scaler)
    loss = closure() if closure is not None else None
    groups = self.param_groups
    try:
        for group in groups:
            counted = {}
            for part in parts([p.numel() for p in group["params"]]):
                self.param_groups = [{**group, "params": group["params"][part]}]
                with _widened(self, group["params"][part]):
                    _step(self, None, grad_scaler)
                counted = {"step": self.param_groups[0]["step"]}
            group.update(counted)
    finally:
        self.param_groups = groups
    return loss


@contextmanager
def _widened(adam: Any, weights: list[Any]) -> Iterator[None]:
    """Hand the step fp32 copies of its bf16 moments, and store what it made of them.

    Two of the optimizer's own methods are covered for that time: the one that widens a tensor
    looks it up, the one that narrows it has nothing to do.
    """
    names = [name for name in MOMENTS if adam.name_to_dtype_map[name] == torch.bfloat16]
    for weight in weights:
        if not adam.state[weight]:
            remainders = adam.store_param_remainders and weight.dtype == torch.bfloat16
            adam.initialize_state(weight, remainders)
    keys = [(weight, name) for weight in weights for name in names]
    narrow = [adam.state[weight][name] for weight, name in keys]
    if not narrow:
        yield
        return
    room = torch.empty(sum(t.numel() for t in narrow), device=narrow[0].device)
    wide = [
        flat.view_as(t)
        for flat, t in zip(room.split([t.numel() for t in narrow]), narrow, strict=True)
    ]
    torch._foreach_copy_(wide, narrow)
    found = {(id(weight), name): t for (weight, name), t in zip(keys, wide, strict=True)}
    whole, apply = adam.get_unscaled_state, adam._apply_scale
    adam.get_unscaled_state = lambda weight, name: (
        found[id(weight), name] if name in names else whole(weight, name)
    )
    adam._apply_scale = lambda name, *tensors: None if name in names else apply(name, *tensors)
    try:
        yield
    finally:
        del adam.get_unscaled_state, adam._apply_scale
    torch._foreach_copy_(narrow, wide)


def install() -> None:
    """Replace ``FusedAdam.step``."""
    FusedAdam.step = step

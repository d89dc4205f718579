"""Loaded into Megatron training: Transformer Engine's FusedAdam steps a few tensors at a time.

``FusedAdam.step`` makes fp32 copies of all moments of a group that are not fp32 before it begins
(TE 2.12 ``pytorch/optimizers/fused_adam.py``, ``get_unscaled_state``): 8 bytes for each local
parameter at once, more than narrow moments save. The arithmetic is elementwise: the result is the
same, bit by bit, however a group is cut (tests/gpu/adam.py).
"""

from collections.abc import Callable
from typing import Any

from transformer_engine.pytorch.optimizers import FusedAdam

from launchers.adam import parts

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
                _step(self, None, grad_scaler)
                counted = {"step": self.param_groups[0]["step"]}
            group.update(counted)
    finally:
        self.param_groups = groups
    return loss


FusedAdam.step = step

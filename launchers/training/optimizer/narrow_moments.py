"""Save the optimizer's bf16 moments as bf16, not as fp32.

With the precision-aware optimizer Transformer Engine keeps the fp32 master of a bf16 weight as the
16 bits that the weight lacks (``store_param_remainders``), and the moments in ``exp_avg_dtype`` and
``exp_avg_sq_dtype``. megatron-core saves what ``FusedAdam.get_unscaled_state`` returns: the 16 bits
as they are, but bf16 moments widened to fp32, twice: once for the part of the state that it then
drops (``DistributedOptimizer.state_dict``). That is 8 bytes a parameter in the checkpoint instead
of 4, and on the GPU during a save or a load 8 more than training needs.

bf16 to fp32 and back loses nothing, and torch converts a tensor that it loads to the type of the
one that it loads into. So checkpoints of either kind load with and without this patch, and the
loaded state is the same to the last bit. The format for another layout of the ranks
(``fully_reshardable``) stays in fp32.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from transformer_engine.pytorch.optimizers import FusedAdam

_sharded: Callable[..., Any] = DistributedOptimizer.sharded_state_dict
_load: Callable[..., Any] = DistributedOptimizer.load_state_dict
_set: Callable[..., Any] = DistributedOptimizer._set_main_param_and_optimizer_states
_GETTER = "get_unscaled_state"


@contextmanager
def as_stored(adam: Any) -> Iterator[None]:
    """Let an optimizer return bf16 state as it is stored, not a copy in fp32.

    Does nothing for an optimizer that is not Transformer Engine's, or within another such block.
    """
    if not isinstance(adam, FusedAdam) or _GETTER in vars(adam):
        yield
        return
    whole = adam.get_unscaled_state

    def get_unscaled_state(weight: Any, name: str, *given: Any, **named: Any) -> Any:
        stored = adam.state[weight][name]
        return stored if stored.dtype == torch.bfloat16 else whole(weight, name, *given, **named)

    adam.get_unscaled_state = get_unscaled_state
    try:
        yield
    finally:
        del adam.get_unscaled_state


def sharded_state_dict(self: Any, *given: Any, **named: Any) -> Any:
    """Return what is saved, or what is loaded into."""
    with as_stored(self.optimizer):
        return _sharded(self, *given, **named)


def load_state_dict(self: Any, state_dict: Any) -> None:
    """Load, with one tensor at a time in fp32."""
    with as_stored(self.optimizer):
        _load(self, state_dict)


def set_main_param_and_optimizer_states(
    self: Any, model_param: Any, tensors: Mapping[str, Any]
) -> None:
    """Set one parameter's state: Transformer Engine takes moments in fp32 alone."""
    wide = {
        name: value.float() if getattr(value, "dtype", None) == torch.bfloat16 else value
        for name, value in tensors.items()
    }
    _set(self, model_param, wide)


def install() -> None:
    """Replace the three methods."""
    DistributedOptimizer.sharded_state_dict = sharded_state_dict
    DistributedOptimizer.load_state_dict = load_state_dict
    DistributedOptimizer._set_main_param_and_optimizer_states = set_main_param_and_optimizer_states

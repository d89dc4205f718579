"""Lay the weights of a layer's trained experts in memory in the order of the experts.

megatron-core's DDP lays parameters last to first (``_compute_per_buffer_param_layout``), so that a
layer's experts are in descending order, which no product over all of them takes
(``torch._grouped_mm`` needs a stride that is not negative). Transformer Engine's takes a pointer to
each weight instead: it prepares and copies the pointers for each product, during which the GPU
waits. Registered last expert first, the weights of a layer are one tensor, as are their gradients.
Weights keep their names; what a checkpoint has of the optimizer is in ``expert_state``.
"""

from __future__ import annotations

from typing import Any

import swift.megatron.trainers.base as trainer
import torch
from megatron.core.extensions.transformer_engine import TEGroupedLinear

from launchers.config.gpu_models import GROUPED_KERNELS
from launchers.training.experts import expert_state
from launchers.training.experts.grouped_weights import weights

_wrap = trainer.wrap_model


def wrap_model(args: Any, models: Any, *given: Any, **named: Any) -> Any:
    """Order the weights of all trained experts, then wrap the models as upstream does."""
    for model in models:
        for name, module in model.named_modules():
            if isinstance(module, TEGroupedLinear) and ".lora_" not in name:
                order(module)
    return _wrap(args, models, *given, **named)


def order(module: Any) -> None:
    """Register a layer's weights last expert first if all are trained."""
    own = weights(module)
    if not all(weight is not None and weight.requires_grad for weight in own):
        return
    expert_state.mark(own, expert_state.ORDERED)
    if expert_state.ORDERED in expert_state.MADE:
        for number in reversed(range(module.num_gemms)):
            name = f"weight{number}"
            module._parameters[name] = module._parameters.pop(name)


def install() -> None:
    """Order weights on GPUs that have the kernel; elsewhere only read checkpoints of that order."""
    trainer.wrap_model = wrap_model
    has_kernels = torch.cuda.get_device_capability()[0] in GROUPED_KERNELS
    expert_state.install(expert_state.ORDERED, is_made=has_kernels)

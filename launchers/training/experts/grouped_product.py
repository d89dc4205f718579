"""Compute the products of a layer's experts with one kernel.

Transformer Engine 2.12 (``module/grouped_linear.py``) runs one GEMM for the gradient of each
expert's weight and returns each to autograd, whose node calls a hook of megatron-core's DDP, which
adds it to the gradient buffer: 64 GEMMs, additions and hooks a layer if a GPU has 32 experts.
Launching them was half of the host's work in a backward pass, and the host was slower than the GPU.
Here the GEMMs of a layer are one kernel, the additions another, and DDP is notified directly, as
its hook does (``megatron/core/distributed/distributed_data_parallel.py``).

An adapter adds two such layers to each: 6,100 GEMMs and hooks a microbatch of 12 layers of 128
experts, during which the GPU was idle two thirds of the time. Its matrices and the frozen weights
use kernels over all experts in all passes (``grouped_weights``).

Only for bf16 weights without bias, on GPUs that have PyTorch's grouped kernel.
"""

from __future__ import annotations

from typing import Any

import swift.megatron.trainers.base as trainer
import torch
from megatron.core.distributed import DistributedDataParallel
from megatron.core.extensions.transformer_engine import TEGroupedLinear

from launchers.config.gpu_models import GROUPED_KERNELS
from launchers.training.experts import remade_rows
from launchers.training.experts.grouped_weights import Weights, prepared
from launchers.training.experts.remade_rows import Again

_wrap, _forward = trainer.wrap_model, TEGroupedLinear.forward


class Product(torch.autograd.Function):  # type: ignore[misc]
    """The products of one layer's experts; autograd does not see their weights."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        anchor: torch.Tensor | None,
        experts: Weights,
        splits: list[int],
        again: Again | None,
    ) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in], which are sorted by expert."""
        ctx.experts, ctx.splits, ctx.again = experts, splits, again
        if experts.is_trained and again is None:
            ctx.save_for_backward(rows)
        return experts.outputs(rows, splits)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradient of the rows; accumulate those of the weights in DDP's buffers."""
        grad, experts = grads[0].contiguous(), ctx.experts
        below = experts.inputs(grad, ctx.splits) if ctx.needs_input_grad[0] else None
        if experts.is_trained:
            again = remade_rows.take(ctx)
            rows = ctx.saved_tensors[0] if again is None else again()
            experts.accumulate(rows, grad, ctx.splits)
        return below, None, None, None, None


def forward(self: Any, rows: torch.Tensor, splits: list[int]) -> Any:
    """Use the grouped kernels if ``wrap_model`` has prepared the module, otherwise upstream's."""
    experts = vars(self).get("one_product")
    if experts is None:
        return _forward(self, rows, splits)
    if not torch.is_grad_enabled():
        return experts.outputs(rows, splits), None
    # trained weights need a backward pass even if the rows need no gradient
    anchor = rows.new_empty(0, requires_grad=True) if experts.is_trained else None
    return Product.apply(rows, anchor, experts, splits, remade_rows.again(rows)), None


def wrap_model(*given: Any, **named: Any) -> Any:
    """Wrap the models as upstream does, then prepare the experts of those that are trained."""
    models = _wrap(*given, **named)
    for model in models:
        if isinstance(model, DistributedDataParallel):
            for module in model.modules():
                if isinstance(module, TEGroupedLinear):
                    vars(module)["one_product"] = prepared(module, model)
    return models


def install() -> None:
    """Replace the forward pass of grouped layers, on GPUs that have the kernel."""
    if torch.cuda.get_device_capability()[0] in GROUPED_KERNELS:
        trainer.wrap_model = wrap_model
        TEGroupedLinear.forward = forward
        remade_rows.enable()

"""Loaded into Megatron training with experts: the products of a layer's experts are one kernel.

Transformer Engine 2.12 (``module/grouped_linear.py``) takes one product for the gradient of each
expert's weight and hands each to autograd, whose node calls a hook of megatron-core's DDP, which
adds it to the gradient buffer: 64 products, additions and hooks a layer where a GPU has 32 experts.
Launching them was half of the host's work in a backward pass, and the host was slower than the GPU.
Here the products of a layer are one kernel, the additions another, and the buffer's owner is told
directly, as its hook does (``megatron/core/distributed/distributed_data_parallel.py``).

An adapter has two such layers beside each: 6,100 products and hooks a microbatch of 12 layers of
128 experts, for which the GPU stood idle two thirds of the time. Its matrices, and the weights that
it leaves frozen, go through kernels of all experts in all passes (``swift_grouped_weights``).

Only for bf16 weights without bias, on GPUs with PyTorch's grouped kernel.
"""

from typing import Any

import swift.megatron.trainers.base as trainer
import torch
from megatron.core.distributed import DistributedDataParallel
from megatron.core.extensions.transformer_engine import TEGroupedLinear

from launchers.training.grouped_weights import Frozen, Trained, prepared
from launchers.training.upstream import require

ARCHITECTURES = (9, 10)
"""Major compute capabilities with such a kernel (PyTorch, ``ATen/native/cuda/GroupedBlas.cpp``)."""
require(trainer, "wrap_model")
require(TEGroupedLinear, "forward")
_wrap, _forward = trainer.wrap_model, TEGroupedLinear.forward


class Product(torch.autograd.Function):  # type: ignore[misc]
    """The products of one layer's experts; their weights are no inputs of it."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        anchor: torch.Tensor | None,
        experts: Frozen | Trained,
        splits: list[int],
    ) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in], which are sorted by expert."""
        if experts.is_trained:
            ctx.save_for_backward(rows)
        ctx.experts, ctx.splits = experts, splits
        return experts.outputs(rows, splits)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradient of the rows; add those of the weights where they belong."""
        grad, experts = grads[0].contiguous(), ctx.experts
        below = experts.inputs(grad, ctx.splits) if ctx.needs_input_grad[0] else None
        if experts.is_trained:
            experts.accumulate(ctx.saved_tensors[0], grad, ctx.splits)
        return below, None, None, None


def forward(self: Any, rows: torch.Tensor, splits: list[int]) -> Any:
    """Take the products as above where ``wrap_model`` has prepared the module."""
    experts = vars(self).get("one_product")
    if experts is None:
        return _forward(self, rows, splits)
    if not torch.is_grad_enabled():
        return experts.outputs(rows, splits), None
    # trained weights need a backward pass also where the rows need no gradient
    anchor = rows.new_empty(0, requires_grad=True) if experts.is_trained else None
    return Product.apply(rows, anchor, experts, splits), None


def wrap_model(*given: Any, **named: Any) -> Any:
    """Wrap upstream's way, then prepare the experts of models that are trained."""
    models = _wrap(*given, **named)
    for model in models:
        if isinstance(model, DistributedDataParallel):
            for name, module in model.named_modules():
                if isinstance(module, TEGroupedLinear):
                    vars(module)["one_product"] = prepared(name, module, model)
    return models


if torch.cuda.get_device_capability()[0] in ARCHITECTURES:
    trainer.wrap_model = wrap_model
    TEGroupedLinear.forward = forward

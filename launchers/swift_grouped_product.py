"""Loaded into Megatron training with experts: their weights' gradients are one product a layer.

Transformer Engine 2.12 (``module/grouped_linear.py``) takes one product for each expert's weight
and hands each to autograd, whose node calls a hook of megatron-core's DDP, which adds it to the
gradient buffer: 64 products, additions and hooks a layer where a GPU has 32 experts. Launching them
was half of the host's work in a backward pass, and the host was slower than the GPU. Here the
products of a layer are one kernel, the additions another, and the buffer's owner is told directly,
as its hook does (``megatron/core/distributed/distributed_data_parallel.py``). Forward pass and the
input's gradient remain Transformer Engine's.

Only for bf16 weights that are all trained, without bias, on GPUs with PyTorch's grouped kernel.
"""

from itertools import accumulate
from typing import Any

import swift.megatron.trainers.base as trainer
import torch
from megatron.core.distributed import DistributedDataParallel
from megatron.core.extensions.transformer_engine import TEGroupedLinear
from transformer_engine.pytorch.cpp_extensions import general_grouped_gemm

from launchers.upstream import require

ARCHITECTURES = (9, 10)
"""Major compute capabilities with such a kernel (PyTorch, ``ATen/native/cuda/GroupedBlas.cpp``)."""
require(trainer, "wrap_model")
require(TEGroupedLinear, "forward")
_wrap, _forward = trainer.wrap_model, TEGroupedLinear.forward


class Experts:
    """The weights of one layer's experts, and who must hear of their gradients."""

    def __init__(self, module: Any, owner: Any) -> None:
        """Take the weights of a module that ``owner`` trains."""
        self.weights = [getattr(module, f"weight{n}") for n in range(module.num_gemms)]
        self.unset = [None] * module.num_gemms
        self.owner = owner
        self.groups = [owner.param_to_bucket_group[weight] for weight in self.weights]

    def product(
        self, rows: torch.Tensor, splits: list[int], width: int, layout: str
    ) -> torch.Tensor:
        """Multiply each expert's rows, [tokens, in], with its weight; return [tokens, width]."""
        out = rows.new_empty(rows.shape[0], width)
        general_grouped_gemm(
            self.weights,
            torch.split(rows, splits),
            [out],
            self.unset,
            rows.dtype,
            layout=layout,
            m_splits=splits,
            grad=layout == "NN",
            single_output=True,
        )
        return out

    def accumulate(self, rows: torch.Tensor, grads: torch.Tensor, splits: list[int]) -> None:
        """Add each expert's grads^T rows to its weight's gradient, and say that it is ready."""
        ends = torch.tensor(list(accumulate(splits)), dtype=torch.int32)
        ends = ends.to(rows.device, non_blocking=True)
        found = torch._grouped_mm(grads.t(), rows, offs=ends)
        torch._foreach_add_([weight.main_grad for weight in self.weights], list(found.unbind()))
        if self.owner.ddp_config.overlap_grad_reduce and self.groups[0].is_last_microbatch:
            for weight, group in zip(self.weights, self.groups, strict=True):
                group.register_grad_ready(weight, self.owner.force_all_reduce)


class Product(torch.autograd.Function):  # type: ignore[misc]
    """The products of one layer's experts; their weights are no inputs of it."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, experts: Experts, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in], which are sorted by expert."""
        ctx.save_for_backward(rows)
        ctx.experts, ctx.splits = experts, splits
        return experts.product(rows, splits, experts.weights[0].shape[0], "TN")

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradient of the rows; add those of the weights where they belong."""
        (rows,) = ctx.saved_tensors
        grad = grads[0].contiguous()
        experts = ctx.experts
        below = experts.product(grad, ctx.splits, rows.shape[1], "NN")
        experts.accumulate(rows, grad, ctx.splits)
        return below, None, None


def forward(self: Any, rows: torch.Tensor, splits: list[int]) -> Any:
    """Take the products as above where ``wrap_model`` has prepared the module."""
    experts = vars(self).get("one_product")
    if experts is None:
        return _forward(self, rows, splits)
    if not torch.is_grad_enabled():
        return experts.product(rows, splits, experts.weights[0].shape[0], "TN"), None
    # nothing would call for the weights' gradients, were the rows not part of a graph
    assert rows.requires_grad, "the experts' input needs no gradient, and the experts are trained"
    return Product.apply(rows, experts, splits), None


def is_fit(module: Any) -> bool:
    """Tell whether all of a module's weights are trained, in bf16 and nothing else."""
    config = module.config
    if module.use_bias or config.fp8 or config.fp4 or module.wgrad_store.delay_wgrad_compute():
        return False
    weights = [getattr(module, f"weight{n}", None) for n in range(module.num_gemms)]
    return all(
        weight is not None
        and weight.requires_grad
        and weight.dtype == torch.bfloat16
        and hasattr(weight, "main_grad")
        for weight in weights
    )


def wrap_model(*given: Any, **named: Any) -> Any:
    """Wrap upstream's way, then prepare the experts of models that are trained."""
    models = _wrap(*given, **named)
    for model in models:
        if isinstance(model, DistributedDataParallel):
            for module in model.modules():
                if isinstance(module, TEGroupedLinear) and is_fit(module):
                    vars(module)["one_product"] = Experts(module, model)
    return models


if torch.cuda.get_device_capability()[0] in ARCHITECTURES:
    trainer.wrap_model = wrap_model
    TEGroupedLinear.forward = forward

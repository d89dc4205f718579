"""Shorter ways to kernels of Transformer Engine, where its Python takes longer than the GPU.

In a forward pass of 16,384 tokens on an H100 the host is often the slower side. Of its work in a
layer (py-spy, Transformer Engine 2.16.1) norms were 10 %, their operations 3: each call builds a
pipeline of one operation (``ops/op.py``). 3 % looked twice for the layout of a pack's queries, keys
and values, which are three tensors (``dot_product_attention/utils.py``). Here a norm runs its
operation directly, and the layout is known from the three storages. The kernels and their inputs
are upstream's.
"""

from __future__ import annotations

from typing import Any

import torch
from transformer_engine import pytorch as engine
from transformer_engine.pytorch.attention.dot_product_attention import utils
from transformer_engine.pytorch.ops.op import OperationContext

_norm, _layout = engine.RMSNorm.forward, utils.get_qkv_layout


class Norm(torch.autograd.Function):  # type: ignore[misc]
    """An operation of Transformer Engine with one input, one output and one weight."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, operation: Any) -> torch.Tensor:
        """Return the operation's output; the weight is its own, given for its gradient."""
        ctx.inner, ctx.operation = OperationContext(), operation
        made: torch.Tensor = operation.op_forward(ctx.inner, rows, None, None)
        ctx.save_for_backward(*ctx.inner.to_save)
        ctx.inner.to_save = None
        return made

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of rows and weight."""
        ctx.inner.saved_tensors = ctx.saved_tensors
        of_rows, [of_weight] = ctx.operation.op_backward(ctx.inner, grads[0])
        ctx.inner.saved_tensors = None  # the node may outlive its backward pass
        return of_rows, of_weight, None


def norm(self: Any, rows: torch.Tensor, *others: Any, **named: Any) -> Any:
    """Return the normalised rows."""
    if others or named or self.weight.is_meta or type(rows) is not torch.Tensor:
        return _norm(self, rows, *others, **named)
    if torch.is_grad_enabled() and (rows.requires_grad or self.weight.requires_grad):
        return Norm.apply(rows, self.weight, self)
    context = OperationContext()
    context.requires_grad = False
    return self.op_forward(context, rows, None, None)


def layout(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qkv_format: str = "sbhd",
    *more: Any,
    **kw: Any,
) -> Any:
    """Return a pack's layout, the tensors that have it, and the formats, as upstream does."""
    places = {each.untyped_storage().data_ptr() for each in (q, k, v)}
    if qkv_format != "thd" or more or any(kw.values()) or len(places) < 3:
        return _layout(q, k, v, qkv_format, *more, **kw)
    return "thd_thd_thd", q.contiguous(), k.contiguous(), v.contiguous(), "thd", "thd"


def install() -> None:
    """Replace the norm's forward pass, and the function that looks for a layout."""
    engine.RMSNorm.forward, utils.get_qkv_layout = norm, layout

"""Move tokens to the rows of their experts and back by direct calls of the kernels.

From Transformer Engine 2.13 on its permutations are operators of ``torch.library``, whose calls
were 13 % of the host's work in a layer's forward pass. Here an autograd function launches the same
kernels.

A layer keeps its experts' inputs for the gradients of their weights: 8 rows a token for the first
product, and the activations for the second. Both are copies of what is kept anyway, so they are
made again in the backward pass, by the same kernels with the same bits: 0.65 ms a layer of 16,384
tokens, where to recompute the layer takes 7 ms. 40 % of a layer's memory is free for other layers
that need no recomputation.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from megatron.core.fusions import fused_bias_swiglu
from megatron.core.transformer.moe import experts
from megatron.core.transformer.moe import token_dispatcher as dispatcher
from transformer_engine.pytorch.triton import permutation as kernels

from launchers.training.experts import remade_rows

_permute, _unpermute = dispatcher.permute, dispatcher.unpermute
_activate = experts.weighted_bias_swiglu_impl
_MORE = 2 * ("tokens_per_expert" in inspect.signature(_permute).parameters)
"""What upstream returns besides: padding and tokens of experts, from megatron-core 0.18.2 on."""


def to_rows(
    tokens: torch.Tensor, where: torch.Tensor, count: int, probs: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return [count, hidden] of [tokens, hidden], and the rows' probabilities.

    ``where``: Transformer Engine's map of tokens to rows, [tokens, 2 experts + 1].
    """
    rows, _, found = kernels.permute_with_mask_map(
        inp=tokens,
        row_id_map=where,
        probs=probs,
        num_tokens=tokens.shape[0],
        num_experts=where.shape[1] // 2,
        num_out_tokens=count,
        hidden_size=tokens.shape[1],
        scale=None,
        scale_hidden_dim=None,
        pad_offsets=None,
    )
    return rows, found


def to_tokens(
    rows: torch.Tensor, where: torch.Tensor, probs: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the sums of each token's rows, and its probabilities of the rows'."""
    found: tuple[torch.Tensor, torch.Tensor | None] = kernels.unpermute_with_mask_map(
        inp=rows,
        row_id_map=where,
        merging_probs=None,
        permuted_probs=probs,
        num_tokens=where.shape[0],
        num_experts=where.shape[1] // 2,
        hidden_size=rows.shape[1],
        pad_offsets=None,
    )
    return found


class ToRows(torch.autograd.Function):  # type: ignore[misc]
    """Tokens as rows sorted by expert."""

    @staticmethod
    def forward(ctx: Any, tokens: Any, probs: Any, where: Any, count: int) -> Any:
        """Return rows, and their probabilities if there are any."""
        ctx.save_for_backward(where)
        rows, found = to_rows(tokens, where, count, probs)
        return rows if found is None else (rows, found)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of tokens and probabilities."""
        [where] = ctx.saved_tensors
        of_probs = grads[1].contiguous() if len(grads) > 1 else None
        return *to_tokens(grads[0].contiguous(), where, of_probs), None, None


class ToTokens(torch.autograd.Function):  # type: ignore[misc]
    """The sums of each token's rows."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """Return [tokens, hidden] of [rows, hidden]."""
        ctx.save_for_backward(where)
        ctx.count = len(rows)
        return to_tokens(rows, where)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradient of the rows."""
        return to_rows(grads[0].contiguous(), ctx.saved_tensors[0], ctx.count)[0], None


def permute(
    tokens: torch.Tensor,
    routing_map: torch.Tensor,
    probs: torch.Tensor | None = None,
    num_out_tokens: int | None = None,
    fused: bool = False,
    **others: Any,
) -> Any:
    """Return what upstream returns; the rows know how they are made again."""
    is_plain = fused and num_out_tokens is not None and type(tokens) is torch.Tensor
    if not is_plain or others.get("align_size") or not tokens.numel():
        return _permute(tokens, routing_map, probs, num_out_tokens, fused=fused, **others)
    where = kernels.make_row_id_map(routing_map, *routing_map.shape)
    count, found = int(num_out_tokens or 0), None
    rows = ToRows.apply(tokens, probs, where, count)
    if probs is not None:
        rows, found = rows
    if remade_rows.are_kept():
        kept = tokens.detach()
        remade_rows.note(rows, lambda: to_rows(kept, where, count)[0])
    return rows, found, where, *(None, others.get("tokens_per_expert"))[:_MORE]


def unpermute(
    permuted_tokens: torch.Tensor,
    sorted_indices: torch.Tensor,
    restore_shape: Any,
    probs: torch.Tensor | None = None,
    routing_map: torch.Tensor | None = None,
    fused: bool = False,
    **others: Any,
) -> torch.Tensor:
    """Return the sums of tokens' rows as upstream does."""
    if not fused or probs is not None or others.get("pad_offsets") is not None:
        return _unpermute(
            permuted_tokens,
            sorted_indices,
            restore_shape,
            probs,
            routing_map,
            fused=fused,
            **others,
        )
    return ToTokens.apply(permuted_tokens, sorted_indices)


def activate(rows: torch.Tensor, bias: Any, weights: torch.Tensor, *others: Any) -> torch.Tensor:
    """Return upstream's weighted activations of rows, which know how they are made again."""
    made: torch.Tensor = _activate(rows, bias, weights, *others)
    if rows.dim() == 2 and not any(others) and remade_rows.are_kept():
        kept = rows.detach(), weights.detach()
        remade_rows.note(made, partial(fused_bias_swiglu.weighted_swiglu, *kept))
    return made


def install() -> None:
    """Replace the functions by which megatron-core's dispatchers and experts call the kernels."""
    dispatcher.permute, dispatcher.unpermute = permute, unpermute
    experts.weighted_bias_swiglu_impl = activate

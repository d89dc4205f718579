"""Loaded into Megatron training with ``moe_token_dispatcher_type: allgather`` and packs.

What the experts of each rank made of a token is added up on the rank that holds the token.
megatron-core 0.18.0 leaves that to a reduce-scatter, in fp32 at twice the bytes of what is added:
bf16. NCCL's ring begins it at another rank for each receiver and rounds every sum on the way, so
from three ranks on a text's log-probability depends on the rank that its pack is dealt to. With
the sums in bf16 a reference that was taken once was 0.0023 off in the first loss on 4 x H200; in
fp32, as upstream, fewer sums end on another side of bf16's rounding, and it was not measured.

Here each rank gets the parts as they are, by an all-to-all of bf16, and adds them in the order of
the ranks, in fp32, rounded once: the same on each rank. The backward pass gathers the same
gradients as upstream's, in bf16 instead of fp32. The gradients of the tokens that were gathered
are upstream's, which adds them in bf16.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from megatron.core.transformer.moe.token_dispatcher import MoEAllGatherTokenDispatcher

from launchers.training.upstream import require_parameters

require_parameters(MoEAllGatherTokenDispatcher.token_combine, "self", "hidden_states")


class RankOrder(torch.autograd.Function):  # type: ignore[misc]
    """Adds up the parts that the ranks of a group have of each one's rows, in the ranks' order."""

    @staticmethod
    def forward(ctx: Any, parts: Any, group: Any) -> Any:
        """Return this rank's rows.

        Args:
            ctx: of the call, for the backward pass.
            parts: of all ranks' rows, ``[ranks * rows, ...]``, rank by rank.
            group: of ranks.
        """
        ctx.group, sent = group, parts.contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=group)
        # bf16 is added in fp32 and rounded once (ATen, SumKernel)
        return received.view(group.size(), -1, *parts.shape[1:]).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, None]:
        """Return each part's gradient: that of the rows it was added to."""
        whole = grad.new_empty(ctx.group.size() * grad.shape[0], *grad.shape[1:])
        dist.all_gather_into_tensor(whole, grad.contiguous(), group=ctx.group)
        return whole, None


def token_combine(self: Any, hidden_states: Any) -> Any:
    """Return this rank's tokens, from what all ranks' experts made of them."""
    if self.tp_ep_group.size() == 1:
        return hidden_states
    return RankOrder.apply(hidden_states, self.tp_ep_group)


MoEAllGatherTokenDispatcher.token_combine = token_combine

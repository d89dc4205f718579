"""Sum the experts' outputs of all ranks in rank order (dispatcher ``allgather``).

The rank that holds a token adds up what the experts of each rank have computed for it.
megatron-core 0.18.0 uses a reduce-scatter, in fp32 at twice the bytes of the bf16 addends. NCCL's
ring starts at a different rank for each receiver and rounds every partial sum, so that with three
or more ranks a text's log-probability depends on the rank that its pack is dealt to. With sums in
bf16 a precomputed reference was 0.0023 off in the first loss on 4 x H200; sums in fp32, as
upstream, cross a rounding boundary of bf16 less often; their error was not measured.

Here each rank receives the addends unchanged by an all-to-all in bf16 and adds them in rank order
in fp32, rounded once: the same on each rank. The backward pass gathers the same gradients as
upstream's, in bf16 instead of fp32. The gradients of the gathered tokens are upstream's, which adds
them in bf16.
"""

from typing import Any

import torch
import torch.distributed as dist
from megatron.core.transformer.moe.token_dispatcher import MoEAllGatherTokenDispatcher


class RankOrder(torch.autograd.Function):  # type: ignore[misc]
    """A reduce-scatter over the ranks of a group that adds in rank order."""

    @staticmethod
    def forward(ctx: Any, parts: Any, group: Any) -> Any:
        """Return the sums of this rank's rows, ``[rows, ...]``.

        Args:
            ctx: autograd's context.
            parts: this rank's addends for the rows of all ranks, ``[ranks * rows, ...]``, rank by
                rank.
            group: the process group.
        """
        ctx.group, sent = group, parts.contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=group)
        # bf16 is added in fp32 and rounded once (ATen, SumKernel)
        return received.view(group.size(), -1, *parts.shape[1:]).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, None]:
        """Return the gradient of each addend: that of the row it was added to."""
        whole = grad.new_empty(ctx.group.size() * grad.shape[0], *grad.shape[1:])
        dist.all_gather_into_tensor(whole, grad.contiguous(), group=ctx.group)
        return whole, None


def token_combine(self: Any, hidden_states: Any) -> Any:
    """Return this rank's tokens, summed over the experts of all ranks."""
    if self.tp_ep_group.size() == 1:
        return hidden_states
    return RankOrder.apply(hidden_states, self.tp_ep_group)


def install() -> None:
    """Replace the dispatcher's reduce-scatter."""
    MoEAllGatherTokenDispatcher.token_combine = token_combine

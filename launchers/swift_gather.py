"""Loaded into Megatron training with packs and ``moe_token_dispatcher_type: allgather``.

Two things of megatron-core 0.18.0's dispatcher (``moe/token_dispatcher.py``) are done otherwise:
- It counts each expert's tokens for the host after it has gathered the rows, and selects the
  probabilities by a mask, whose length the host must wait for again: twice in each layer the GPU
  has nothing to do until the host has launched what follows. Here the counts leave before the rows
  are gathered, so that the host is ahead again when they are there, and the kernel that sorts the
  rows sorts the probabilities too, as with all-to-all.
- The experts' results are added up in the type of the probabilities, fp32, at twice the bytes of
  what is added: bf16. Here they are added in bf16, where each sum on the way is rounded to 8 bits
  and not the last one only: none more with 2 ranks, 2 with 4, 6 with 8. The backward pass sends
  the same gradients at half the bytes. The gradients of what was gathered are upstream's, which
  adds them in bf16 as well.
"""

from __future__ import annotations

from typing import Any

import megatron.core.transformer.moe.token_dispatcher as dispatchers
import torch
from megatron.core.transformer.moe.token_dispatcher import MoEAllGatherTokenDispatcher

from launchers.upstream import require, require_parameters

require(dispatchers, "gather_from_sequence_parallel_region", "permute")
require_parameters(MoEAllGatherTokenDispatcher.token_dispatch, "self", "hidden_states", "probs")
require_parameters(
    MoEAllGatherTokenDispatcher.dispatch_postprocess, "self", "hidden_states", "probs"
)
require_parameters(MoEAllGatherTokenDispatcher.token_combine, "self", "hidden_states")
_combine = MoEAllGatherTokenDispatcher.token_combine


class Counts:
    """The tokens of each expert of this rank, on their way to the host."""

    def __init__(self, counts: torch.Tensor) -> None:
        """Send ``counts``, [experts], once what makes them is done."""
        self.here = torch.empty_like(counts, device="cpu", pin_memory=counts.is_cuda)
        self.here.copy_(counts, non_blocking=True)
        self.arrival = torch.cuda.Event() if counts.is_cuda else None
        if self.arrival:
            self.arrival.record()

    def wait(self) -> torch.Tensor:
        """Return them when they are here."""
        if self.arrival:
            self.arrival.synchronize()
        return self.here


def token_dispatch(self: Any, hidden_states: Any, probs: Any) -> tuple[Any, Any]:
    """Gather map, probabilities and rows of all ranks: [tokens of all, experts or hidden]."""
    first, number = self.local_expert_indices[0], self.num_local_experts
    with torch.no_grad():
        routes = _gather(self, self.routing_map)[:, first : first + number]
        self.local_map = routes.contiguous()
        self.counts = Counts(self.local_map.sum(dim=0))
    probs = _gather(self, probs)[:, first : first + number].contiguous()
    return _gather(self, hidden_states, use_global_buffer=True), probs


def dispatch_postprocess(self: Any, hidden_states: Any, probs: Any) -> tuple[Any, Any, Any]:
    """Sort rows and probabilities by expert; return both and the tokens of each expert."""
    self.hidden_shape_before_permute = hidden_states.shape
    counts = self.counts.wait()
    rows, probs, self.reversed_local_input_permutation_mapping, *_ = dispatchers.permute(
        hidden_states,
        self.local_map,
        probs=probs,
        num_out_tokens=int(counts.sum()),
        fused=self.config.moe_permute_fusion,
    )
    self.routing_map = self.counts = None
    return rows, counts, probs


def token_combine(self: Any, hidden_states: Any) -> Any:
    """Add the experts' results up in their own type: upstream takes that of ``local_probs``."""
    self.local_probs = hidden_states.new_empty(0)  # the experts have the probabilities by now
    return _combine(self, hidden_states)


def _gather(self: Any, part: Any, **how: bool) -> Any:
    return dispatchers.gather_from_sequence_parallel_region(part, group=self.tp_ep_group, **how)


MoEAllGatherTokenDispatcher.token_dispatch = token_dispatch
MoEAllGatherTokenDispatcher.dispatch_postprocess = dispatch_postprocess
MoEAllGatherTokenDispatcher.token_combine = token_combine

"""Let the host launch the experts' products while tokens are gathered (dispatcher ``allgather``).

Transformer Engine's grouped product takes the rows of each expert as numbers on the host.
megatron-core 0.18.0 reads them after it has gathered the routing map, probabilities and tokens, and
selects the rows' probabilities by ``masked_select``, for which the host waits again. After each of
the two waits the GPU has nothing to do until the host has launched the next kernels: on 2 x H100 a
forward pass without gradients had the GPU idle a third of the time.

Here the numbers are copied to the host as soon as the routing map is there, while probabilities and
tokens are still gathered, and the rows' probabilities are permuted with the rows, as the dispatcher
``alltoall`` does. A GPU with all experts permutes before it waits. A layer that is recomputed has
the map and the numbers of its first run: it gathers and waits for neither. All values are
upstream's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from megatron.core import tensor_parallel
from megatron.core.transformer.moe import token_dispatcher as upstream
from megatron.core.transformer.moe.token_dispatcher import MoEAllGatherTokenDispatcher

from launchers.training.experts import remade_rows

_checkpoint = tensor_parallel.checkpoint


class Counts:
    """Numbers that are copied to the host while it continues to launch kernels."""

    def __init__(self, found: torch.Tensor) -> None:
        """Begin the copy; on a GPU the memory that receives it is pinned."""
        self.copy, self.done = found.to("cpu", non_blocking=True), None
        if found.is_cuda:
            self.done = torch.cuda.Event()
            self.done.record()

    def read(self) -> torch.Tensor:
        """Wait for the copy alone, and return it."""
        if self.done is not None:
            self.done.synchronize()
        return self.copy


Routed = tuple[torch.Tensor, Counts]
"""The routing map of a rank's own experts, [tokens, experts], and the rows of each."""


class Memory:
    """What the dispatchers of a recomputed part of the model have found in its first run."""

    running: Memory | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        """Remember for the runs of a function."""
        self.function = function
        self.found: list[Routed] = []
        self.at = 0

    def __call__(self, *given: Any) -> Any:
        """Run the function."""
        before, Memory.running, self.at = Memory.running, self, 0
        try:
            return self.function(*given)
        finally:
            Memory.running = before

    def next(self, find: Callable[[], Routed]) -> Routed:
        """Return what this place in the function found in its first run."""
        if self.at == len(self.found):
            self.found.append(find())
        self.at += 1
        return self.found[self.at - 1]


def checkpoint(function: Callable[..., Any], *given: Any) -> Any:
    """Run a function that runs again in the backward pass, as upstream does, with a memory."""
    return _checkpoint(Memory(function), *given)


def own(self: Any, whole: torch.Tensor) -> torch.Tensor:
    """Return the columns of this rank's experts."""
    mine = self.local_expert_indices
    return whole[:, mine[0] : mine[-1] + 1].contiguous()


def token_dispatch(self: Any, hidden_states: torch.Tensor, probs: torch.Tensor) -> Any:
    """Gather all ranks' tokens as upstream does; count the rows of experts before the tokens."""
    gather, group = upstream.gather_from_sequence_parallel_region, self.tp_ep_group
    is_shared = self.tp_size > 1 or self.ep_size > 1

    def find() -> Routed:
        if is_shared:
            self.routing_map = gather(self.routing_map, group=group)
        local = own(self, self.routing_map)
        return local, Counts(local.sum(dim=0).long())

    with torch.no_grad():
        memory = Memory.running
        self.local_map, self.early_counts = find() if memory is None else memory.next(find)
    if is_shared:
        probs = gather(probs, group=group)
        # tokens of which rows are made again must not be overwritten by the next layer's
        is_passing = not remade_rows.are_kept()
        hidden_states = gather(hidden_states, group=group, use_global_buffer=is_passing)
    return hidden_states, probs


def dispatch_postprocess(self: Any, hidden_states: torch.Tensor, probs: torch.Tensor) -> Any:
    """Return the rows of this rank's experts, their number for each, and their probabilities."""
    self.hidden_shape_before_permute = hidden_states.shape
    own_probs, config = own(self, probs), self.config

    def permuted(rows: int) -> Any:
        fused = config.moe_permute_fusion
        return upstream.permute(
            hidden_states, self.local_map, probs=own_probs, num_out_tokens=rows, fused=fused
        )

    expected: int = -1
    found: Any = None
    if self.num_local_experts == config.num_moe_experts and not config.moe_expert_capacity_factor:
        # the number of all rows is known if all experts are here and no token is dropped
        expected = len(self.local_map) * config.moe_router_topk
        found = permuted(expected)
    counts = self.early_counts.read()
    self.early_counts = self.routing_map = None
    if (total := int(counts.sum())) != expected:
        found = permuted(total)
    rows, own_probs, self.reversed_local_input_permutation_mapping = found[:3]
    # upstream keeps them for their type, and with them a microbatch's graph until the next has run
    self.local_probs = own_probs.detach()
    return rows, counts, own_probs


def install() -> None:
    """Replace two steps of the dispatcher, and the function that recomputes."""
    tensor_parallel.checkpoint = checkpoint
    MoEAllGatherTokenDispatcher.token_dispatch = token_dispatch
    MoEAllGatherTokenDispatcher.dispatch_postprocess = dispatch_postprocess

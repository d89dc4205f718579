"""The optimizer's state of stacked adapters in checkpoints, and checkpoints of the other form.

megatron-core's distributed optimizer saves its buffers as they are (``dp_reshardable``), in which
each expert's adapter is a parameter of its own, last expert first; a stack is one parameter, first
expert first. A checkpoint is marked with its form. One of the other form is read by upstream's
layout for parameters of that form: whole buckets, of which each parameter takes its parts. Buckets
with stacks have keys of their own, so that a program that knows no stacks ends with an error.
``fully_reshardable`` saves the state by the weights' keys, which are the same in both forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import (
    LocalNonpersistentObject,
    ShardedBase,
    ShardedTensor,
)
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from swift.megatron.utils import megatron_lm_utils

EXPERTS = "adapter_experts"
"""Attribute of weights: the number of experts whose adapters are, or could be, one stack."""
MARK = "stacked_adapters"
"""Key of a checkpoint's ``content_metadata``."""
_OTHER = "other form"
_KEY, _STACKED_KEY = "optimizer.distributed.", "optimizer.stacked."
_state = DistributedOptimizer.sharded_param_state_dp_reshardable
_load = DistributedOptimizer.load_parameter_state_from_dp_reshardable
_metadata = megatron_lm_utils.get_sharded_sd_metadata
Piece = tuple[Any, int, int]
"""A parameter, and the begin and the number of some of its elements."""


@dataclass
class Stacks:
    """Whether this process stacks adapters."""

    are_made: bool = False


STACKS = Stacks()


@dataclass(frozen=True)
class Place:
    """Elements of a parameter in the buckets of the other form."""

    begin: int
    size: int
    bucket: int
    offset: int


def in_other_form(weights: Sequence[Any]) -> Iterator[list[Piece]]:
    """Yield for each parameter of the other form where its elements are in these."""
    rest = iter(weights)
    for weight in rest:
        count = getattr(weight, EXPERTS, 0)
        if not count:
            yield [(weight, 0, weight.numel())]
        elif weight.dim() == 3:
            size = weight.numel() // count
            yield from ([(weight, n * size, size)] for n in range(count))
        else:
            yield [(each, 0, each.numel()) for each in (weight, *islice(rest, count - 1))]


def places(self: Any, buffer: Any) -> tuple[dict[Any, list[Place]], list[int]]:
    """Return each parameter's places in a buffer of the other form, and its buckets' sizes."""
    [owner] = [
        each
        for each in self.model_chunks
        if any(one is buffer for one in (*each.buffers, *each.expert_parallel_buffers))
    ]
    others = list(in_other_form(buffer.params))
    shapes = [torch.empty(sum(size for _, _, size in each), device="meta") for each in others]
    layout = self._compute_per_buffer_param_layout(
        shapes, owner.bucket_size, buffer.data_parallel_world_size, owner.ddp_config
    )
    found: dict[Any, list[Place]] = {weight: [] for weight in buffer.params}
    for pieces, shape in zip(others, shapes, strict=True):
        at, _, bucket = layout.param_index_map[shape]
        at -= layout.bucket_indices[bucket][0]
        for weight, begin, size in pieces:
            found[weight].append(Place(begin, size, bucket, at))
            at += size
    return found, layout.per_bucket_numel_unpadded


def local(self: Any, number: int) -> Iterator[tuple[Any, int, int]]:
    """Yield parameter, begin and end of what this rank has of a buffer."""
    for buckets in self.gbuf_ranges[number].values():
        for bucket in buckets:
            for weight, ranges in bucket["param_map"].items():
                yield weight, ranges["param"].start, ranges["param"].end


def _states(self: Any, weight: Any) -> dict[str, Any]:
    """Return a parameter's state by name, without counters."""
    found = self._get_main_param_and_optimizer_states(weight)
    return {name: value for name, value in found.items() if value.dim() == 1}


def wanted(self: Any) -> dict[str, Any]:
    """Return the buckets of the other form that this rank needs, to be loaded."""
    found: dict[str, Any] = {_OTHER: LocalNonpersistentObject(True)}
    group = (
        f"{_KEY if STACKS.are_made else _STACKED_KEY}dp_group_idx_{self.data_parallel_group_idx}"
    )
    for number, buffer in enumerate(self.buffers):
        by_weight, sizes = places(self, buffer)
        kinds = (buffer.param_dtype, buffer.grad_dtype)
        for weight, begin, end in local(self, number):
            states = _states(self, weight)
            for bucket in {each.bucket for each in _overlapping(by_weight[weight], begin, end)}:
                key = f"{group}.gbuf_idx_{number}.dtype_{kinds}.bucket_idx_{bucket}"
                for name, value in states.items():
                    own = f"{number}/{bucket}/{name}"
                    if own not in found:
                        data = value.new_empty(sizes[bucket])
                        found[own] = ShardedTensor(
                            key=f"{key}.{name}",
                            data=data,
                            dtype=data.dtype,
                            local_shape=data.shape,
                            global_shape=data.shape,
                            global_offset=(0,),
                            axis_fragmentations=None,
                            replica_id=(self.distributed_optimizer_instance_id, 0, 0),
                        )
    return found


def _overlapping(places: Sequence[Place], begin: int, end: int) -> Iterator[Place]:
    """Yield the parts of places that are within elements begin to end."""
    for each in places:
        first, last = max(begin, each.begin), min(end, each.begin + each.size)
        if first < last:
            yield Place(first, last - first, each.bucket, each.offset + first - each.begin)


def load_parameter_state(self: Any, state: Any) -> None:
    """Set the state from buckets of either form."""
    if not (state and state.get(_OTHER)):
        _load(self, state)
        return
    for number, buffer in enumerate(self.buffers):
        by_weight, _ = places(self, buffer)
        for weight, begin, end in local(self, number):
            parts = list(_overlapping(by_weight[weight], begin, end))
            tensors = dict(self._get_main_param_and_optimizer_states(weight))
            for name in _states(self, weight):
                tensors[name] = torch.cat([_part(state, number, each, name) for each in parts])
            self._set_main_param_and_optimizer_states(weight, tensors)


def _part(state: Any, number: int, place: Place, name: str) -> torch.Tensor:
    return state[f"{number}/{place.bucket}/{name}"][place.offset : place.offset + place.size]


def sharded_param_state(
    self: Any, weights: Any, is_loading: bool = False, metadata: Any = None
) -> Any:
    """Return the buckets that are saved, or those of a checkpoint's form."""
    has_adapters = any(hasattr(each, EXPERTS) for one in self.buffers for each in one.params)
    is_stacked = bool((metadata or {}).get(MARK)) if is_loading else STACKS.are_made
    if has_adapters and is_loading and is_stacked != STACKS.are_made:
        return wanted(self)
    found = _state(self, weights, is_loading, metadata)
    for each in nested_values(found) if has_adapters and is_stacked else ():
        if isinstance(each, ShardedBase):
            each.key = each.key.replace(_KEY, _STACKED_KEY)
    return found


def get_sharded_sd_metadata(args: Any) -> dict[str, Any]:
    """Return what a checkpoint says of its form."""
    found: dict[str, Any] = _metadata(args)
    return found | ({MARK: True} if STACKS.are_made else {})


def install(*, stacks: bool) -> None:
    """Replace the state's parts of a checkpoint, their load, and the checkpoint's form."""
    STACKS.are_made = stacks
    DistributedOptimizer.sharded_param_state_dp_reshardable = sharded_param_state
    DistributedOptimizer.load_parameter_state_from_dp_reshardable = load_parameter_state
    megatron_lm_utils.get_sharded_sd_metadata = get_sharded_sd_metadata

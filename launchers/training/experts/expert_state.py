"""The optimizer's state of experts in checkpoints, and checkpoints of another form.

megatron-core's distributed optimizer saves its buffers as they are (``dp_reshardable``), in which
upstream has each expert's weight and adapter as a parameter of its own, last expert first. Our
forms have the first expert first: an adapter's stack is one parameter (``stacked_adapters``), and
trained experts lie in their order (``expert_order``). A checkpoint is marked with its forms. One
of another form is read by upstream's layout for parameters of that form: each parameter's parts
of the buckets are loaded into its own state. Buckets of our forms have keys of their own, so that
a program that does not know them ends with an error. ``fully_reshardable`` saves the state by the
weights' keys, which are the same in all forms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedBase, ShardedTensor
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from swift.megatron.utils import megatron_lm_utils

STACKED, ORDERED = "stacked_adapters", "ordered_experts"
"""Our forms of adapters and of trained experts; keys of a checkpoint's ``content_metadata``."""
MADE: set[str] = set()
"""The forms that this process has."""
_GROUP = "expert_group"
_OTHER = "other form"
_KEY, _OWN_KEY = "optimizer.distributed.", "optimizer.stacked."
_state = DistributedOptimizer.sharded_param_state_dp_reshardable
_load = DistributedOptimizer.load_parameter_state_from_dp_reshardable
_metadata = megatron_lm_utils.get_sharded_sd_metadata
Piece = tuple[Any, int, int]
"""A parameter, and the begin and the number of some of its elements."""


@dataclass(frozen=True)
class Place:
    """Elements of a parameter in the buckets of the other form."""

    begin: int
    size: int
    bucket: int
    offset: int


def mark(weights: Sequence[Any], form: str) -> None:
    """Note on the weights of a layer's experts which form they have or could have."""
    for weight in weights:
        setattr(weight, _GROUP, (form, len(weights)))


def in_forms(weights: Sequence[Any], others: Collection[str]) -> Iterator[list[Piece]]:
    """Yield for each parameter where its elements are in these, if some forms were the others."""
    rest = iter(weights)
    for weight in rest:
        form, experts = getattr(weight, _GROUP, (None, 1))
        if form not in others:
            yield [(weight, 0, weight.numel())]
        elif weight.dim() == 3:
            size = weight.numel() // experts
            yield from ([(weight, n * size, size)] for n in range(experts))
        else:
            each = [(one, 0, one.numel()) for one in (weight, *islice(rest, experts - 1))]
            yield from ([one] for one in reversed(each)) if form == ORDERED else [each]


def places(
    self: Any, buffer: Any, forms: Collection[str]
) -> tuple[dict[Any, list[Place]], list[int]]:
    """Return each parameter's places in a buffer of other forms, and its buckets' sizes."""
    [owner] = [
        each
        for each in self.model_chunks
        if any(one is buffer for one in (*each.buffers, *each.expert_parallel_buffers))
    ]
    others = list(in_forms(buffer.params, forms))
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


def wanted(self: Any, forms: Collection[str], key: str) -> dict[str, Any]:
    """Return what this rank needs of the buckets, under a key, of other forms, to be loaded.

    By buffer, parameter and name of the state: its parts, which are loaded in place.
    """
    group, found = f"{key}dp_group_idx_{self.data_parallel_group_idx}", []
    for number, buffer in enumerate(self.buffers):
        by_weight, sizes = places(self, buffer, forms)
        kinds = (buffer.param_dtype, buffer.grad_dtype)
        bucket = f"{group}.gbuf_idx_{number}.dtype_{kinds}.bucket_idx_"
        loaded: list[dict[str, list[ShardedTensor]]] = []
        for weight, begin, end in local(self, number):
            parts = list(_overlapping(by_weight[weight], begin, end))
            lengths = [each.size for each in parts]
            states = _states(self, weight).items()
            of_state = {name: value.detach().split(lengths) for name, value in states}
            loaded.append(
                {
                    name: [
                        _part(self, f"{bucket}{each.bucket}.{name}", data, each, sizes)
                        for each, data in zip(parts, values, strict=True)
                    ]
                    for name, values in of_state.items()
                }
            )
        found.append(loaded)
    return {_OTHER: found}


def _part(
    self: Any, key: str, data: torch.Tensor, place: Place, sizes: Sequence[int]
) -> ShardedTensor:
    return ShardedTensor(
        key=key,
        data=data,
        dtype=data.dtype,
        local_shape=data.shape,
        global_shape=(sizes[place.bucket],),
        global_offset=(place.offset,),
        axis_fragmentations=None,
        replica_id=(self.distributed_optimizer_instance_id, 0, 0),
    )


def _overlapping(places: Sequence[Place], begin: int, end: int) -> Iterator[Place]:
    """Yield the parts of places that are within elements begin to end."""
    for each in places:
        first, last = max(begin, each.begin), min(end, each.begin + each.size)
        if first < last:
            yield Place(first, last - first, each.bucket, each.offset + first - each.begin)


def load_parameter_state(self: Any, state: Any) -> None:
    """Set the state from buckets of any form."""
    if not (state and _OTHER in state):
        _load(self, state)
        return
    for number, loaded in enumerate(state[_OTHER]):
        for (weight, _, _), parts in zip(local(self, number), loaded, strict=True):
            tensors = dict(self._get_main_param_and_optimizer_states(weight))
            tensors |= {name: torch.cat(each) for name, each in parts.items()}
            self._set_main_param_and_optimizer_states(weight, tensors)


def sharded_param_state(
    self: Any, weights: Any, is_loading: bool = False, metadata: Any = None
) -> Any:
    """Return the buckets that are saved, or those of a checkpoint's forms."""
    groups = (getattr(each, _GROUP, None) for one in self.buffers for each in one.params)
    known = {group[0] for group in groups if group}
    saved = {form for form in known if (metadata or {}).get(form)} if is_loading else known & MADE
    key = _OWN_KEY if saved else _KEY
    if others := saved ^ (known & MADE):
        return wanted(self, others, key)
    found = _state(self, weights, is_loading, metadata)
    for each in nested_values(found) if saved else ():
        if isinstance(each, ShardedBase):
            each.key = each.key.replace(_KEY, key)
    return found


def get_sharded_sd_metadata(args: Any) -> dict[str, Any]:
    """Return what a checkpoint says of its forms."""
    found: dict[str, Any] = _metadata(args)
    return found | dict.fromkeys(sorted(MADE), True)


def install(form: str, *, is_made: bool) -> None:
    """Replace the state's parts of a checkpoint, their load, and the checkpoint's forms."""
    if is_made:
        MADE.add(form)
    DistributedOptimizer.sharded_param_state_dp_reshardable = sharded_param_state
    DistributedOptimizer.load_parameter_state_from_dp_reshardable = load_parameter_state
    megatron_lm_utils.get_sharded_sd_metadata = get_sharded_sd_metadata

"""Give attention the length of a pack's longest text as a number on the host.

ms-swift 4.4.1 (``swift/utils/transformers_utils.py: get_packed_seq_params``) leaves it on the GPU;
4.6.0 reads it (``swift/megatron/utils/utils.py``) but does not round it. Transformer Engine needs
it on the host in every layer: two synchronisations with the GPU in each layer's backward pass, two
more and a new choice of the attention backend in its forward pass. Here it is read once and rounded
up: Transformer Engine and cuDNN cache plans by it, and a new plan costs 20 ms.

It is read from the batch as the loader made it, as are the texts' bounds and lengths: ms-swift
finds them on the GPU, for which each microbatch waits until the one before has ended. Its sums of
log-probabilities read two bounds a text from the GPU (``rlhf_mixin.py: get_logps``); they get the
host's.
"""

import copy
from typing import Any

import swift.megatron.trainers.utils as trainer_utils
from swift.megatron.trainers.rlhf_mixin import MegatronRLHFTrainer

STEP = 1024
"""Tokens to whose multiple a length is rounded up: few plans; tiles without text exit at once."""
KEY = "as_loaded"
"""Attribute of a microbatch's positions: the same on the host, and the lengths of its texts; of the
texts' bounds: the same on the host."""
_upstream = trainer_utils.get_packed_seq_params
_moved = trainer_utils.get_batch_on_this_pp_rank
_sums = MegatronRLHFTrainer.get_logps


class Longest(int):
    """An upper bound for the longest text of a pack, in tokens."""

    exact: int

    def item(self) -> int:
        """Return the exact length: mcore-bridge's linear attention calls this as on a tensor."""
        return self.exact


def bound(exact: int) -> Longest:
    """Return the length rounded up to a multiple of ``STEP``."""
    longest = Longest(-(-exact // STEP) * STEP)
    longest.exact = exact
    return longest


def get_batch_on_this_pp_rank(args: Any, data: Any, vp_stage: Any = None) -> Any:
    """Move a microbatch to the GPU as upstream does, but keep what describes its texts."""
    batch = _moved(args, data, vp_stage=vp_stage)
    name = "position_ids" if data.get("text_position_ids") is None else "text_position_ids"
    if args.padding_free and batch.get(name) is not None:
        texts = batch.pop("seq_lens", None)
        if texts is not None:  # upstream reads their number from either
            batch["num_samples"] = len(texts)
        setattr(batch[name], KEY, (data[name], texts))
    return batch


def get_packed_seq_params(args: Any, position_ids: Any) -> Any:
    """Return upstream's parameters of a pack with its longest text as a number on the host."""
    positions, texts = getattr(position_ids, KEY, (position_ids, None))
    packed = _upstream(args, positions)
    # queries and keys are of the same text: upstream gives both the same tensor
    packed.max_seqlen_q = packed.max_seqlen_kv = bound(int(packed.max_seqlen_q))
    if positions is not position_ids:
        bounds = sent(packed.cu_seqlens_q, position_ids.device)
        setattr(bounds, KEY, packed.cu_seqlens_q)
        packed.cu_seqlens_q = packed.cu_seqlens_kv = bounds
    if texts is not None:
        packed.seq_lens = sent(positions.new_tensor(texts).long(), position_ids.device)
    return packed


def get_logps(
    self: Any, output_tensor: Any, labels: Any, packed_seq_params: Any, *given: Any, **named: Any
) -> Any:
    """Return upstream's sums of each text's log-probabilities, without a wait for its bounds."""
    bounds = getattr(getattr(packed_seq_params, "cu_seqlens_q", None), KEY, None)
    if bounds is not None:
        packed_seq_params = copy.copy(packed_seq_params)
        packed_seq_params.cu_seqlens_q = bounds
    return _sums(self, output_tensor, labels, packed_seq_params, *given, **named)


def sent(found: Any, device: Any) -> Any:
    """Copy a tensor to a device; for one in pinned memory the host does not wait for the GPU."""
    is_pinned = device.type == "cuda" and not found.is_cuda
    return (found.pin_memory() if is_pinned else found).to(device, non_blocking=True)


def install() -> None:
    """Replace the functions by which the trainer moves and describes a pack, and sums its texts."""
    trainer_utils.get_batch_on_this_pp_rank = get_batch_on_this_pp_rank
    trainer_utils.get_packed_seq_params = get_packed_seq_params
    MegatronRLHFTrainer.get_logps = get_logps

"""Give attention the length of a pack's longest text as a number on the host.

ms-swift 4.4.1 (``swift/utils/transformers_utils.py: get_packed_seq_params``) leaves it on the GPU;
4.6.0 reads it (``swift/megatron/utils/utils.py``) but does not round it. Transformer Engine needs
it on the host in every layer: two synchronisations with the GPU in each layer's backward pass, two
more and a new choice of the attention backend in its forward pass. Here it is read once and rounded
up: Transformer Engine and cuDNN cache plans by it, and a new plan costs 20 ms.
"""

from typing import Any

import swift.megatron.trainers.utils as trainer_utils

STEP = 1024
"""Tokens to whose multiple a length is rounded up: few plans; tiles without text exit at once."""
_upstream = trainer_utils.get_packed_seq_params


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


def get_packed_seq_params(*given: Any, **named: Any) -> Any:
    """Return upstream's parameters of a pack with its longest text as a number on the host."""
    packed = _upstream(*given, **named)
    # queries and keys are of the same text: upstream gives both the same tensor
    packed.max_seqlen_q = packed.max_seqlen_kv = bound(int(packed.max_seqlen_q))
    return packed


def install() -> None:
    """Replace the function by which the trainer describes a pack."""
    trainer_utils.get_packed_seq_params = get_packed_seq_params

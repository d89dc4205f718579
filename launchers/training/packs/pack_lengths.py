"""Loaded into Megatron training with packs: the longest text of a pack is told as a number.

ms-swift 4.4.1 (``swift/utils/transformers_utils.py: get_packed_seq_params``) leaves it on the GPU.
Transformer Engine needs it on the host, in each layer: two waits of the host for all that the GPU
has still to do in each layer's backward pass, two more and a new comparison of attention backends
in its forward pass. It is read once here, and rounded up: Transformer Engine and cuDNN keep plans
by it, and a new one costs 20 ms.
"""

from typing import Any

import swift.megatron.trainers.utils as trainer_utils

from launchers.training.upstream import require

STEP = 1024
"""Tokens to whose multiple a length is rounded up: few plans; tiles without text end at once."""
require(trainer_utils, "get_packed_seq_params")
_given = trainer_utils.get_packed_seq_params


class Longest(int):
    """A bound for the longest text of a pack, in tokens."""

    exact: int

    def item(self) -> int:
        """Return the longest text itself: mcore-bridge's linear attention asks as of a tensor."""
        return self.exact


def bound(exact: int) -> Longest:
    """Return what all lengths up to the next multiple of ``STEP`` share."""
    longest = Longest(-(-exact // STEP) * STEP)
    longest.exact = exact
    return longest


def get_packed_seq_params(*given: Any, **named: Any) -> Any:
    """Return upstream's parameters of a pack with lengths that the host knows."""
    packed = _given(*given, **named)
    # one text is query and key: upstream gives both the same tensor
    packed.max_seqlen_q = packed.max_seqlen_kv = bound(int(packed.max_seqlen_q))
    return packed


trainer_utils.get_packed_seq_params = get_packed_seq_params

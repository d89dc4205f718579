"""Pad packs to one size for ``moe_token_dispatcher_type: allgather``.

ms-swift 4.4.1 does not work with this dispatcher of megatron-core 0.18.0 for two reasons:
- Packs differ in tokens, and an all-gather needs equal sizes. Here each microbatch is padded to the
  capacity of its packs, in evaluation and in the reference's pass too. The padding is another text,
  which appears in no label, length or count. It repeats the pack's own tokens: copies of a single
  token would all go to the same few experts, and for a half-empty pack they would not fit on one
  rank. ``experts/filler_mask.py`` keeps the padding out of load balancing and expert counts.
- mcore-bridge 1.6.0 declares for each model that its sequences differ in length
  (``variable_seq_lengths``), which only pipelines would need to know.
"""

from typing import Any

import swift.megatron.trainers.base as trainers
import torch
from mcore_bridge.config import ModelConfig

from launchers.flags.equal_packs import NAME, judge, room

_multiple = trainers.get_padding_to
_collator = trainers.BaseMegatronTrainer._get_data_collator
_configured = ModelConfig.__post_init__


def get_padding_to(args: Any) -> int:
    """Return the tokens of each microbatch: ms-swift pads to a multiple of it."""
    packs, length = args.micro_batch_size, args.packing_length or args.max_length
    return room(packs=packs, length=length, multiple=_multiple(args))


class PaddingCollator:
    """A collator that turns the padding of upstream's collator into one text."""

    def __init__(self, inner: Any, space: int) -> None:
        """Wrap upstream's collator, which pads to a multiple of ``space`` tokens."""
        self.inner, self.space = inner, space

    def __call__(self, batch: list[Any]) -> dict[str, Any]:
        """Collate a microbatch.

        Raises:
            LaunchError: CONFIG when it has more than texts, DATA when it exceeds the capacity.
        """
        made: dict[str, Any] = self.inner(batch)
        words, places = made["input_ids"][0], made["position_ids"][0]
        real = sum(made["seq_lens"])
        judge(made, real, len(words), self.space)
        filled = torch.arange(self.space - real)
        # upstream starts each padding token at position 0, as a text of its own
        places[real:] = filled
        words[real:] = words[filled % real]
        return made


def get_data_collator(self: Any) -> PaddingCollator:
    """Return upstream's collator, padding to equal sizes."""
    return PaddingCollator(_collator(self), get_padding_to(self.args))


def post_init(self: Any) -> None:
    """Declare sequences of equal length before megatron-core validates its configuration."""
    if self.moe_token_dispatcher_type == NAME:
        self.variable_seq_lengths = False
    _configured(self)


def install() -> None:
    """Replace the trainer's padding and collator, and the model's configuration."""
    trainers.get_padding_to = get_padding_to
    trainers.BaseMegatronTrainer._get_data_collator = get_data_collator
    ModelConfig.__post_init__ = post_init

"""Loaded into Megatron training with ``moe_token_dispatcher_type: allgather`` and packs.

Two things keep ms-swift 4.4.1 from megatron-core 0.18.0's dispatcher, and are mended here:
- Packs differ in tokens, and a gather needs equal ones. Each microbatch is filled up to its packs'
  room, in evaluation and in the reference's pass too. What fills it is one more text, which no
  label, length or count knows. It repeats the pack's own words: of one word alone, all would go to
  the same few experts, and of a pack that is half empty they would not fit one rank. The router
  does see them: load balancing and the experts' counts take them for tokens (below 1 % of a run).
- mcore-bridge 1.6.0 says of each model that its sequences differ (``variable_seq_lengths``), of
  which only pipelines would need to know.
"""

from __future__ import annotations

from typing import Any

import swift.megatron.trainers.base as trainers
import torch
from mcore_bridge.config import ModelConfig

from launchers.flags.equal_packs import NAME, judge, room
from launchers.training.upstream import require, require_parameters

require(trainers, "get_padding_to", "BaseMegatronTrainer")
require(ModelConfig, "variable_seq_lengths", "__post_init__")
require_parameters(trainers.get_padding_to, "args")
require_parameters(trainers.BaseMegatronTrainer._get_data_collator, "self")
_multiple = trainers.get_padding_to
_collator = trainers.BaseMegatronTrainer._get_data_collator
_configured = ModelConfig.__post_init__


def get_padding_to(args: Any) -> int:
    """Return the tokens of each microbatch: ms-swift pads to a multiple of it."""
    packs, length = args.micro_batch_size, args.packing_length or args.max_length
    return room(packs=packs, length=length, multiple=_multiple(args))


class Filling:
    """Makes one text of what upstream's collator pads a microbatch with."""

    def __init__(self, inner: Any, space: int) -> None:
        """Wrap upstream's collator, which pads to ``space`` tokens."""
        self.inner, self.space = inner, space

    def __call__(self, batch: list[Any]) -> dict[str, Any]:
        """Collate a microbatch.

        Raises:
            PacksConfigError: it holds more than texts.
            PacksDataError: it holds more than its packs' room.
        """
        made: dict[str, Any] = self.inner(batch)
        words, places = made["input_ids"][0], made["position_ids"][0]
        real = sum(made["seq_lens"])
        judge(made, real, len(words), self.space)
        filled = torch.arange(self.space - real)
        # else each of them begins at 0, and is a text of its own
        places[real:] = filled
        words[real:] = words[filled % real]
        return made


def get_data_collator(self: Any) -> Filling:
    """Return upstream's collator, filling."""
    return Filling(_collator(self), get_padding_to(self.args))


def post_init(self: Any) -> None:
    """Tell megatron-core that sequences are equal, before it judges."""
    if self.moe_token_dispatcher_type == NAME:
        self.variable_seq_lengths = False
    _configured(self)


trainers.get_padding_to = get_padding_to
trainers.BaseMegatronTrainer._get_data_collator = get_data_collator
ModelConfig.__post_init__ = post_init

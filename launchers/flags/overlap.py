"""Whether the experts' all-to-all runs beside computation, and what can't go with it.

megatron-core 0.18 runs the forward pass of one microbatch between the parts of another's backward
pass (``megatron/core/pipeline_parallel/combined_1f1b.py``). The switch is one of its own, without a
flag in ms-swift 4.4.1: ``megatron_extra_kwargs``.
"""

from __future__ import annotations

from collections.abc import Mapping

from launchers.config.recipe import Value
from launchers.flags import core_overrides

NAME = "overlap_moe_expert_parallel_comm"
SWITCH = f"megatron_extra_kwargs.{NAME}"
"""Stands among the flags, so that a rule may ask for it."""
READ = ("input_ids", "position_ids", "attention_mask", "labels", "packed_seq_params")
"""What of a batch a plan reads."""


class OverlapConfigError(Exception):
    """What the recipe does not allow: ends a run with CONFIG (``system/failure_rules.py``)."""


def switched(extra: Value, name: str = NAME) -> bool:
    """Tell whether ``megatron_extra_kwargs`` turns a switch on, as megatron-core takes its value.

    >>> switched({"overlap_moe_expert_parallel_comm": True}), switched("{}"), switched("[1")
    (True, False, False)
    """
    return bool((core_overrides.read(extra) or {}).get(name))


def refusals(args: object, *, precomputed: bool) -> list[str]:
    """Return why a run can't overlap, a sentence each.

    The chart and the launcher refuse the same by ``rules/overlap.py``; this is for a run without.
    What megatron-core asserts by itself (``transformer_config.py``, ``__post_init__``) is left out.

    Args:
        args: ms-swift's parsed arguments.
        precomputed: whether the reference's log-probabilities are taken once.
    """
    found = []
    if not precomputed:
        found.append("recipe.reference is online: a second model runs in each forward step")
    if not getattr(args, "padding_free", True):
        found.append("padding_free is false: not tried with masks")
    if getattr(args, "mtp_num_layers", None):
        found.append("mtp_num_layers is given: megatron-core has none for packed texts")
    return found


def unread(batch: Mapping[str, object]) -> list[str]:
    """Return the names of what a batch holds and a plan would lose.

    >>> unread({"input_ids": 1, "pixel_values": 2, "channel": None})
    ['pixel_values']
    """
    return sorted(name for name in batch if name not in READ and batch[name] is not None)

"""megatron-core's switch for overlapping the experts' all-to-all with computation.

megatron-core 0.18 runs the forward pass of one microbatch between the parts of another's backward
pass (``megatron/core/pipeline_parallel/combined_1f1b.py``). The switch is one of its own, without a
flag in ms-swift 4.4.1: ``megatron_extra_kwargs``.
"""

from __future__ import annotations

from launchers.config.recipe import Value
from launchers.flags import core_overrides

NAME = "overlap_moe_expert_parallel_comm"
SWITCH = f"megatron_extra_kwargs.{NAME}"
"""Stands among the flags, so that a rule may ask for it."""


def switched(extra: Value, name: str = NAME) -> bool:
    """Tell whether ``megatron_extra_kwargs`` turns a switch on, as megatron-core takes its value.

    >>> switched({"overlap_moe_expert_parallel_comm": True}), switched("{}"), switched("[1")
    (True, False, False)
    """
    return bool((core_overrides.read(extra) or {}).get(name))

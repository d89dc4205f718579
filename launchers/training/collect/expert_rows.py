"""Count the rows that each expert of this rank gets, without synchronising with the GPU.

megatron-core 0.18 passes ``tokens_per_expert`` to the experts on the CPU: the dispatcher needs it
there for its splits (``token_dispatcher.py``, ``_maybe_dtoh_and_synchronize``; DeepEP has it as a
list). A forward pre-hook of the experts adds it up; if a dispatcher leaves it on the GPU, the sum
stays there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from megatron.core.transformer.moe.moe_layer import MoELayer

from launchers.metrics.vector import Places


@dataclass(kw_only=True)
class Part:
    """The experts of one layer on this rank."""

    layer: int
    """Index in the whole model, from 0."""
    first: int
    """Index of the first local expert."""
    rows: torch.Tensor | None = None


class ExpertRows:
    """Rows of each local expert since the step began, of chosen and rejected texts together."""

    def __init__(self, models: Iterable[Any]) -> None:
        """Hook into the policy's layers with experts; the reference is another model."""
        self._parts: list[Part] = []
        for module in (module for model in models for module in model.modules()):
            if isinstance(module, MoELayer) and not module.is_mtp_layer:
                part = Part(layer=module.layer_number - 1, first=module.local_expert_indices[0])
                module.experts.register_forward_pre_hook(partial(self._count, part))
                self._parts.append(part)

    def _count(self, part: Part, _: Any, given: tuple[Any, ...]) -> None:
        """Count only while gradients are recorded, so that each microbatch counts once.

        A recomputed layer runs its first pass without gradients; so do evaluation and the reference
        of a LoRA run.
        """
        if torch.is_grad_enabled() and len(given) > 1:
            rows = given[1]
            part.rows = rows.clone() if part.rows is None else part.rows.add_(rows)

    def drain(self, host: torch.Tensor, device: torch.Tensor | None, places: Places) -> None:
        """Move the counts on the CPU to the host's vector, or those on the GPU to the device's."""
        for part in self._parts:
            rows = part.rows
            if rows is None or rows.is_cuda == (device is None):
                continue
            target = host if device is None else device
            target[places.layer(part.layer, part.first, rows.numel())] += rows
            rows.zero_()

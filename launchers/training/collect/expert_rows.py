"""Count the texts' tokens that the router sends to each expert, without waiting for the GPU.

megatron-core 0.18 calls the router of a layer with the tokens of this rank and their
``padding_mask`` (``moe_layer.py: MoELayer.route``), which is true for filler
(``experts/filler_mask.py``); the tokens of a step are divided over the ranks, so that the sum of
all ranks' counts has each of them once. The counts stay on the device.
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
    """The router of one layer."""

    layer: int
    """Index in the whole model, from 0."""
    rows: torch.Tensor | None = None
    """Rows of each expert, int64 [experts]."""


class ExpertRows:
    """Rows of each expert since the step began, of chosen and rejected texts together."""

    def __init__(self, models: Iterable[Any]) -> None:
        """Register hooks in the policy's layers with experts; the reference is another model."""
        self._parts: list[Part] = []
        for module in (module for model in models for module in model.modules()):
            if isinstance(module, MoELayer) and not module.is_mtp_layer:
                part = Part(layer=module.layer_number - 1)
                module.router.register_forward_hook(partial(self._count, part))
                self._parts.append(part)

    def _count(self, part: Part, _: Any, given: tuple[Any, ...], routed: Any) -> None:
        """Count only while gradients are recorded, so that each microbatch counts once.

        A recomputed layer runs its first pass without gradients; so do evaluation and the reference
        of a LoRA run.
        """
        if not torch.is_grad_enabled():
            return
        chosen = routed[1].detach()
        filler = given[1] if len(given) > 1 else None
        if filler is not None:
            chosen = chosen & ~filler.reshape(-1, 1)
        rows = chosen.sum(dim=0)
        part.rows = rows if part.rows is None else part.rows.add_(rows)

    def drain(self, target: torch.Tensor, places: Places) -> None:
        """Add the counts to a vector on their device, and begin again."""
        for part in self._parts:
            if part.rows is not None:
                target[places.layer(part.layer, 0, part.rows.numel())] += part.rows
                part.rows.zero_()

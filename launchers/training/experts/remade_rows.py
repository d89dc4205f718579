"""Rows of experts that are made again in the backward pass instead of kept until then."""

from __future__ import annotations

from collections.abc import Callable

import torch
from megatron.core.tensor_parallel.random import is_checkpointing

Again = Callable[[], torch.Tensor]
"""Makes rows again, with the same bits."""
_NAME = "made_again"


def are_kept() -> bool:
    """Return whether a layer that runs now keeps its rows until its backward pass.

    One without gradients does not, nor one that is recomputed: its backward pass follows at once.
    """
    return torch.is_grad_enabled() and not is_checkpointing()


def note(rows: torch.Tensor, again: Again) -> None:
    """Note on rows how they are made."""
    setattr(rows, _NAME, again)


def again(rows: torch.Tensor) -> Again | None:
    """Return how rows are made again; None if they have to be kept."""
    found: Again | None = getattr(rows, _NAME, None)
    return found

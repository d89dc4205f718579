"""Rows of experts that are made again in the backward pass instead of kept until then."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from megatron.core.tensor_parallel.random import is_checkpointing

Again = Callable[[], torch.Tensor]
"""Makes rows again, with the same bits."""
_PRODUCTS = SimpleNamespace(remake=False)
"""Whether the experts' products make their rows again; upstream's keep them, and with them what
rows are made of."""
_NAME = "made_again"


def enable() -> None:
    """Say that the experts' products make their rows again (``grouped_product``)."""
    _PRODUCTS.remake = True


def are_kept() -> bool:
    """Return whether a layer that runs now has to have its rows in its backward pass.

    One without gradients has not, nor one that is recomputed: its backward pass follows at once.
    """
    return _PRODUCTS.remake and torch.is_grad_enabled() and not is_checkpointing()


def note(rows: torch.Tensor, again: Again) -> None:
    """Note on rows how they are made."""
    setattr(rows, _NAME, again)


def again(rows: torch.Tensor) -> Again | None:
    """Return how rows are made again; None if they have to be kept."""
    found: Again | None = getattr(rows, _NAME, None)
    return found


def take(ctx: Any) -> Again | None:
    """Return how a product's rows are made again, ``ctx.again``, and release what they are made of.

    Autograd releases saved tensors after a node's backward pass, attributes only with the node.
    """
    found: Again | None
    found, ctx.again = ctx.again, None
    return found

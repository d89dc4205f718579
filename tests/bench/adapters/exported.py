"""Two exported adapters compared."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def compare(one: Path, other: Path) -> dict[str, Any]:
    """Return how far the safetensors of two checkpoints are apart.

    Returns:
        ``tensors``, their number; ``difference``, of all as one vector, relative to ``one``;
        ``why`` if they are not comparable.
    """
    left, right = _read(one), _read(other)
    if not left or left.keys() != right.keys():
        return {"why": f"{len(left)} and {len(right)} tensors, or other names"}
    if other_shape := [name for name in left if left[name].shape != right[name].shape]:
        return {"why": f"{other_shape[0]} has another shape"}
    # Adam's first steps are signs of gradients, so that a few elements differ by whole steps
    apart = math.hypot(*(float((left[n].float() - right[n].float()).norm()) for n in left))
    norm = math.hypot(*(float(tensor.float().norm()) for tensor in left.values()))
    return {"tensors": len(left), "difference": apart / norm}


def _read(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found

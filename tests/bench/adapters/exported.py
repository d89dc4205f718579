"""Two exported adapters compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def compare(one: Path, other: Path) -> dict[str, Any]:
    """Return how far the safetensors of two checkpoints are apart.

    Returns:
        ``tensors``, their number; ``difference``, the largest; ``why`` if they are not comparable.
    """
    left, right = _read(one), _read(other)
    if not left or left.keys() != right.keys():
        return {"why": f"{len(left)} and {len(right)} tensors, or other names"}
    if other_shape := [name for name in left if left[name].shape != right[name].shape]:
        return {"why": f"{other_shape[0]} has another shape"}
    apart = max(float((left[n].float() - right[n].float()).abs().max()) for n in left)
    return {"tensors": len(left), "difference": apart}


def _read(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found

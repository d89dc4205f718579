"""Check that an exported model is the original one with the adapter merged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIX = "base_model.model."
"""Prefix of PEFT's names of a model's modules."""
CLOSE = 0.2
"""Tolerance of the merged weights, relative to the adapter's change: weights are rounded to bf16,
2^-9 of their value, and the adapter changes them by about a tenth (measured: 0.03)."""


def adapter_of(export: Path) -> Path | None:
    """Return the folder of the adapter in an export; None if no adapter was trained."""
    return next((file.parent for file in export.rglob("adapter_config.json")), None)


def compare(export: Path, adapter: Path, model: Path) -> dict[str, Any]:
    """Compare an export with the original model.

    Args:
        export: the merged model.
        adapter: the folder of its adapter, in PEFT's format.
        model: in Hugging Face format.

    Returns:
        ``tensors`` of the model, ``adapted`` ones, ``moved`` that have no adapter and differ or
        are missing, ``added`` and ``apart``: norms of what the adapter adds over that of the
        weights, and of what the merged weights miss over that of what it adds.
    """
    import torch

    sides, scale = _read(adapter), _scale(adapter)
    before, after = _read(model), _read(export)
    factors = {name.removeprefix(PREFIX).rpartition(".lora_")[0] for name in sides}
    moved = []
    weights = adds = misses = torch.zeros((), dtype=torch.float64)
    for name, weight in before.items():
        found, module = after.get(name), name.removesuffix(".weight")
        if module not in factors or found is None:
            moved += [name] if found is None or not torch.equal(found, weight) else []
            continue
        down, up = (sides[f"{PREFIX}{module}.lora_{side}.weight"].double() for side in "AB")
        added = scale * up @ down
        weights = weights + weight.double().square().sum()
        adds = adds + added.square().sum()
        misses = misses + (found.double() - weight.double() - added).square().sum()
    return {
        "tensors": len(before),
        "adapted": len(factors),
        "moved": moved[:10],
        "added": float((adds / weights).sqrt()),
        "apart": float((misses / adds).sqrt()),
    }


def complaints(seen: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each problem of an export.

    >>> complaints({"adapted": 2, "moved": [], "added": 0.1, "apart": 0.01})
    []
    """
    problems = []
    if not seen["adapted"] or not seen["added"] > 0:
        problems.append("the adapter of the export adds nothing")
    if seen["moved"]:
        problems.append(f"the export changed {', '.join(seen['moved'])}, which have no adapter")
    if not seen["apart"] <= CLOSE:
        problems.append(
            f"the exported weights miss model and adapter by {seen['apart']:.2g} of what it adds "
            f"(at most {CLOSE:g})"
        )
    return problems


def _read(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {
        k: v for file in sorted(folder.glob("*.safetensors")) for k, v in load_file(file).items()
    }


def _scale(adapter: Path) -> float:
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    return float(config["lora_alpha"]) / float(config["r"])

"""Gradients of a side from its ranks' files, and how far they are from those in fp32."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.bench.gradients import names

Gradients = dict[str, NDArray[np.float32]]
"""Flattened gradients by the name of the parameter over all ranks."""


def ranks(folder: Path) -> list[dict[str, Any]]:
    """Return what each rank wrote about itself, in the order of the files' names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("gradients-*.json"))]


def read(folder: Path) -> Gradients:
    """Return the gradients of a side."""
    found: dict[str, dict[tuple[int, int], NDArray[np.float32]]] = {}
    elements: dict[str, int] = {}
    for name, begin, end, size, part in _parts(folder):
        found.setdefault(name, {})
        if (begin, end) in found[name] or elements.setdefault(name, size) != size:
            raise ValueError(f"{name}: ranks have the same part, or another size of the whole")
        found[name][begin, end] = part
    if not found:
        raise ValueError(f"{folder.name} has no gradients")
    for name, parts in found.items():
        if why := names.tiling(parts, elements[name]):
            raise ValueError(f"{name}: {why}")
    return {
        name: np.concatenate([parts[at] for at in sorted(parts)]) for name, parts in found.items()
    }


def _parts(folder: Path) -> Iterator[tuple[str, int, int, int, NDArray[np.float32]]]:
    for path in sorted(folder.glob("gradients-*.json")):
        about = json.loads(path.read_text())
        for key, part in load_file(path.with_suffix(".safetensors")).items():
            begin, end, size, name = key.split(":", 3)
            whole = names.whole(name, about["expert_rank"], about["local_experts"])
            yield whole, int(begin), int(end), int(size), part


def compare(own: Gradients, exact: Gradients) -> dict[str, dict[str, float]]:
    """Return the error of each parameter's gradient.

    Returns:
        By name ``exact``, the norm of the exact gradient; ``error``, the norm of the difference;
        and ``along``, the scalar product of both divided by the norm of the exact one.
    """
    if other := sorted(own.keys() ^ exact.keys()):
        raise ValueError(f"{len(other)} parameters have gradients on one side only: {other[0]}")
    return {name: _compare(name, own[name], right) for name, right in exact.items()}


def _compare(name: str, own: NDArray[np.float32], exact: NDArray[np.float32]) -> dict[str, float]:
    if own.size != exact.size:
        raise ValueError(f"{name} has {own.size} elements, in fp32 {exact.size}")
    one, right = own.astype(np.float64), exact.astype(np.float64)
    norm = math.sqrt(float(right @ right))
    apart = one - right
    return {
        "exact": norm,
        "error": math.sqrt(float(apart @ apart)),
        "along": float(one @ right) / norm if norm else math.nan,
    }


def columns(found: Mapping[str, Mapping[str, float]]) -> dict[str, list[Any]]:
    """Return the rows of ``compare`` as columns, with six digits."""
    rows = list(found.values())
    return {
        "name": list(found),
        **{key: [float(f"{row[key]:.6g}") for row in rows] for key in rows[0]},
    }


def rows(found: Mapping[str, list[Any]]) -> dict[str, dict[str, float]]:
    """Return the columns of a result as ``compare`` returns them."""
    keys = [key for key in found if key != "name"]
    return {name: {key: found[key][at] for key in keys} for at, name in enumerate(found["name"])}

"""``metrics.jsonl``: one row per optimizer step.

One process writes one line per step; ``reader.py`` reads the file. Evaluations have lines of their
own (``evaluations.py``).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeGuard


@dataclass(frozen=True, kw_only=True)
class Row:
    """The measurements of one optimizer step; None for what is not known."""

    step: int
    total: int
    """Steps of the whole run."""
    attempt: int
    time: float
    """Unix time at the step's end."""
    seconds: float
    """Duration of the step including its data; without evaluation, saving and logging."""
    other_seconds: float = 0.0
    """Time between the step before and this one: logging, evaluation, saving."""
    data_seconds: float | None = None
    """Part of ``seconds`` waited for data, on the rank that waited longest."""
    metrics_seconds: float | None = None
    """Cost of these metrics in the step before, on the writing rank's training thread."""
    tokens: int | None = None
    """Real tokens of the global step: chosen and rejected, each once, without padding."""
    squares: float | None = None
    """Sum of the squared lengths of its sequences."""
    sequences: int | None = None
    s_eff: float | None = None
    """``squares / tokens``, which determines the FLOP of attention."""
    world: int = 1
    """World size: number of processes, one per GPU if there are GPUs."""
    card: str | None = None
    """The GPU model in ``config/gpu_models.py``, under the key of the metrics file."""
    tokens_per_second_per_gpu: float | None = None
    model_tflops_per_gpu: float | None = None
    hardware_tflops_per_gpu: float | None = None
    """Including recomputation."""
    mfu: float | None = None
    """Model FLOP/s over the GPU's dense bf16 peak."""
    token_balance: float | None = None
    """Largest over mean number of tokens of a data-parallel rank."""
    fill: float | None = None
    """Real tokens over the packs' capacity; None without packing."""
    allocated_gib: float | None = None
    """Peak since the process began, on the rank with the largest."""
    reserved_gib: float | None = None
    watts: float | None = None
    """Mean power of all GPUs since the row before, by the driver."""
    expert_load: float | None = None
    """Largest over mean number of rows of an expert, averaged over the layers."""
    expert_load_worst: float | None = None
    """The same ratio in the layer where it is highest."""
    grad_norm: float | None = None
    """Before clipping."""
    learning_rate: float | None = None
    values: Mapping[str, float | None] = field(default_factory=dict)
    """The trainer's own metrics under its names: ``loss``, ``rewards/margins`` ..."""


_NAMES = tuple(field.name for field in fields(Row) if field.name != "values")
_COUNTS = ("step", "total", "attempt")
_REQUIRED = (*_COUNTS, "time", "seconds")


def line(row: Row) -> str:
    """Return a row as one line of JSON.

    >>> line(Row(step=1, total=2, attempt=1, time=0.5, seconds=3.0, values={"loss": 0.7}))[-30:-1]
    'earning_rate":null,"loss":0.7'
    """
    return json.dumps(document(row), separators=(",", ":"), allow_nan=False)


def document(row: Row) -> dict[str, Any]:
    """Return a row as the object of its line; numbers that are not finite become null."""
    found = {name: _plain(getattr(row, name)) for name in _NAMES}
    return found | {name: _plain(value) for name, value in row.values.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return None if isinstance(value, list | dict) else value  # of a line that others wrote
    return float(f"{value:.12g}") if math.isfinite(value) else None


def of(document: Mapping[str, Any]) -> Row | None:
    """Return the row that a line's object holds; None if it is none, or has invalid values.

    >>> of({"step": 3, "total": 9, "attempt": 1, "time": 1.0, "seconds": 0.0})
    """
    known = {name: document[name] for name in _NAMES if name in document}
    if not all(is_number(known.get(name)) for name in _REQUIRED) or known["seconds"] <= 0:
        return None
    if not all(isinstance(known[name], int) for name in _COUNTS):
        return None
    if not all(known[n] is None or is_number(known[n]) for n in known.keys() - {"card"}):
        return None
    return Row(**known, values={n: v for n, v in document.items() if n not in known})


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that a float can hold.

    >>> [is_number(each) for each in (3, 0.5, float("nan"), 10**400, "3", None)]
    [True, True, False, False, False, False]
    """
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False

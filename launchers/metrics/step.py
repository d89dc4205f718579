"""Compute the row of a step from its measurements; pure arithmetic."""

from dataclasses import dataclass
from typing import Any

from launchers.metrics.model import Model
from launchers.metrics.rows import Row
from launchers.metrics.vector import Shared
from launchers.units import GIB

_CURVES = (
    "seconds", "data_seconds", "tokens_per_second_per_gpu", "hardware_tflops_per_gpu", "mfu",
    "reserved_gib", "token_balance", "expert_load",
)  # fmt: skip
"""Columns drawn by TensorBoard; few, as ms-swift plots each when training ends
(``plot_images``)."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A step's times on the writing rank, in seconds."""

    step: int
    total: int
    attempt: int
    time: float
    seconds: float
    other_seconds: float
    metrics_seconds: float | None = None


def row(
    clock: Clock,
    *,
    world: int,
    shared: Shared | None = None,
    model: Model | None = None,
    capacity: int = 0,
    **trainers: Any,
) -> Row:
    """Return the row of a step.

    tok/s/GPU = real tokens of the global step / its seconds / world size; TFLOP/s and MFU use the
    planner's formulas (``plan/flops.py``) at the step's own s_eff.

    Args:
        clock: the step's times.
        world: number of processes.
        shared: sums over the ranks; None if tokens are not counted.
        model: cost of a token; None if its FLOP are not known.
        capacity: tokens of the packs of a global step; 0 without packing.
        trainers: ``grad_norm``, ``learning_rate`` and ``values`` as the trainer gives them.
    """
    found: dict[str, Any] = {**vars(clock), **trainers, "world": world}
    found["card"] = None if model is None else model.gpu_model
    if shared is not None:
        found |= {
            "data_seconds": shared.data_seconds,
            "allocated_gib": shared.allocated / GIB if shared.allocated else None,
            "reserved_gib": shared.reserved / GIB if shared.reserved else None,
            "watts": shared.watts,
            "expert_load": shared.expert_load,
            "expert_load_worst": shared.expert_load_worst,
        }
    if shared is not None and shared.tokens:
        rate = shared.tokens / clock.seconds / world
        s_eff = shared.squares / shared.tokens
        found |= {
            "tokens": shared.tokens,
            "squares": shared.squares,
            "sequences": shared.sequences,
            "s_eff": s_eff,
            "tokens_per_second_per_gpu": rate,
            "token_balance": shared.token_balance,
            "fill": shared.tokens / capacity if capacity else None,
            **({} if model is None else _speed(rate, s_eff, model)),
        }
    return Row(**found)


def _speed(rate: float, s_eff: float, model: Model) -> dict[str, float | int | None]:
    of_model, of_hardware = model.tflop(s_eff)
    peak = model.peak_tflops
    return {
        "model_tflops_per_gpu": rate * of_model,
        "hardware_tflops_per_gpu": rate * of_hardware,
        "mfu": None if peak is None else rate * of_model / peak,
    }


def curves(row: Row) -> dict[str, float]:
    """Return the TensorBoard curves of a row, by name.

    >>> curves(Row(step=1, total=2, attempt=1, time=0.0, seconds=2.0, mfu=0.5))
    {'speed/seconds': 2.0, 'speed/mfu': 0.5}
    """
    values = {name: getattr(row, name) for name in _CURVES}
    return {f"speed/{name}": value for name, value in values.items() if value is not None}

"""What a run has used: GPU-hours by purpose, energy and money, and what its budget leaves. Pure.

The launcher writes the seconds that the run has held its pods (`held_seconds` of `progress.json`)
and those of its steps and evaluations (`training`); what is left of them is "waiting".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchers.config import budget
from launchers.exits import LaunchError
from launchers.metrics.rows import is_number
from launchers.state.json_text import part
from scripts.plan.units import time_text
from scripts.prices import Prices

PURPOSES: Mapping[str, str] = {
    "trained": "steps that count",
    "evaluation": "evaluations",
    "lost": "steps that were trained again",
    "waiting": "stages, gang, starts, saves, export",
}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """GPU-hours of a run by purpose; they sum up to `held`."""

    held: float
    trained: float
    evaluation: float
    lost: float
    waiting: float
    epoch: float | None
    """GPU-hours for an epoch, all purposes together; None where epochs are not known."""
    thousand_pairs: float | None
    kwh: float | None
    """Energy of the GPUs in steps and between them, by the driver."""


def spent(progress: Mapping[str, Any], plan: Mapping[str, Any]) -> Spent | None:
    """Return what a run has used; None without GPUs, or with a launcher that did not write it."""
    gang, training = part(plan, "gang"), part(progress, "training")
    gpus, nodes = gang.get("gpus_per_node"), gang.get("nodes")
    seconds = _number(progress, "held_seconds")
    if not isinstance(gpus, int) or not isinstance(nodes, int) or not gpus or not seconds:
        return None
    scale = gpus * nodes / 3600
    names = ("trained", "evaluation", "lost")
    trained, evaluation, lost = (scale * _number(training, f"{n}_seconds") for n in names)
    held = scale * max(seconds, 0.0)
    epochs = _epochs(training, plan)
    pairs = epochs * _number(part(training, "rows"), "rows_kept")
    return Spent(
        held=held,
        trained=trained,
        evaluation=evaluation,
        lost=lost,
        waiting=max(0.0, held - trained - evaluation - lost),
        epoch=held / epochs if epochs else None,
        thousand_pairs=1000 * held / pairs if pairs else None,
        kwh=_number(training, "kwh") or None,
    )


def document(found: Spent | None, prices: Prices, gpu_model: object) -> dict[str, Any] | None:
    """Return what a run has used as JSON data, with the price of a GPU-hour; None is not known."""
    if found is None:
        return None
    price = prices.gpu_hour.get(str(gpu_model))
    currency = prices.currency if price is not None else None
    amount = None if price is None else {n: v * price for n, v in _hours(found).items()}
    hours = {"gpu_hours": _hours(found), "amount": amount, "currency": currency}
    return {**hours, "kwh": found.kwh}


def text(found: Spent, prices: Prices, gpu_model: object) -> str:
    """Return what a run has used, for people.

    >>> text(Spent(held=4, trained=3, evaluation=0.4, lost=0, waiting=0.6, epoch=8, kwh=2.5,
    ...            thousand_pairs=None), Prices(currency="EUR", gpu_hour={"h200": 3}), "h200")
    '4.0 GPU-hours, 12.00 EUR (evaluation 1.20 EUR, waiting 1.80 EUR); 24.00 EUR an epoch; 2.5 kWh'
    """
    model = str(gpu_model)

    def cost(hours: float) -> str:
        return prices.of(model, hours) or f"{hours:,.1f} GPU-hours"

    parts = [f"{n} {cost(getattr(found, n))}" for n in PURPOSES if n != "trained"]
    used = [each for each in parts if each.split(" ")[1] not in ("0.00", "0.0")]
    money = prices.of(model, found.held)
    said = f"{found.held:,.1f} GPU-hours" + (f", {money}" if money else "")
    said += f" ({', '.join(used)})" if used else ""
    said += f"; {cost(found.epoch)} an epoch" if found.epoch else ""
    said += f", {cost(found.thousand_pairs)} per 1,000 pairs" if found.thousand_pairs else ""
    return said + (f"; {found.kwh:,.1f} kWh" if found.kwh else "")


def warning(env: Mapping[str, str], progress: Mapping[str, Any], processes: int, now: float) -> str:
    """Return that the budget ends the run before its last step, while it trains; or nothing."""
    training = part(progress, "training")
    eta, each = _number(training, "eta_seconds"), _number(training, "step_seconds")
    try:
        given = budget.from_env(env)
    except LaunchError:
        return ""
    held = _number(progress, "held_seconds")
    left = {
        "budget.gpuMinutes": given.gpu_minutes * 60 / max(1, processes) - held,
        "budget.by": given.by - now,
    }
    name, seconds = min(left.items(), key=lambda item: item[1])
    if progress.get("state") != "running" or not each or seconds >= eta:
        return ""
    step, total = _number(training, "step"), _number(training, "total")
    last = min(total, step + max(0.0, seconds) // each)
    return (
        f"{name} ends the run in {time_text(max(0.0, seconds))}, at about step {last:,.0f} of "
        f"{total:,.0f}; to the last step it would take {time_text(eta)}. To train on, install with "
        "a larger budget after its end"
    )


def _hours(found: Spent) -> dict[str, float]:
    return {n: v for n, v in vars(found).items() if n != "kwh" and v is not None}


def _epochs(training: Mapping[str, Any], plan: Mapping[str, Any]) -> float:
    """Return the epochs that were trained; 0 if that is not known."""
    total = _number(training, "total")
    given = part(part(plan, "recipe"), "args").get("num_train_epochs")
    try:
        return float(given or 0) * _number(training, "step") / total if total else 0.0
    except (TypeError, ValueError):
        return 0.0


def _number(found: Mapping[str, Any], name: str) -> float:
    value = found.get(name)
    return float(value) if is_number(value) else 0.0

"""Figures of a run from its steps: medians and spread, tokens per second, MFU. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from launchers.config.gpu_models import GpuModel
from launchers.plan import flops
from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Training
from tests.bench.speed.read import Ranks, Step

WARM_UP = 3
"""First steps, which compile and autotune; not counted."""
LN_2 = math.log(2)
"""Loss of DPO while the policy equals the reference: -log sigmoid(0)."""
CLOSE = 1e-4
TOLERANCE = 0.005
"""Relative tolerance between the product's own figures and the same formula here."""
PRODUCT = (
    "seconds",
    "data_seconds",
    "other_seconds",
    "metrics_seconds",
    "fill",
    "token_balance",
    "expert_load",
    "expert_load_worst",
    "grad_norm",
)
"""Fields of ``launchers/metrics/rows.py``."""
GIB = 2**30


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, 95th percentile (nearest rank), extremes, deviation from the median (MAD).

    >>> spread([1.0, 2.0, 3.0, 10.0])
    {'median': 2.5, 'p95': 10.0, 'min': 1.0, 'max': 10.0, 'mad': 1.0, 'mean': 4.0}
    """
    middle = statistics.median(values)
    ordered = sorted(values)
    return {
        "median": middle,
        "p95": ordered[math.ceil(0.95 * len(ordered)) - 1],
        "min": ordered[0],
        "max": ordered[-1],
        "mad": statistics.median(abs(value - middle) for value in values),
        "mean": statistics.mean(values),
    }


def figures(
    steps: Sequence[Step],
    model: ModelConfig,
    training: Training,
    gpu: GpuModel,
    warm_up: int = WARM_UP,
) -> dict[str, Any]:
    """Return a run's figures over the steps after the warm-up; fewer if no step is left.

    Tokens per second and GPU are a step's real tokens over its seconds and the world's size; model
    FLOP/s count no recomputing and use the measured s_eff (``launchers.plan.flops``).
    """
    world = training.layout.world
    measured = [step for step in steps[warm_up:] if step.seconds > 0]
    if not measured:
        return {"steps": 0}
    tokens, squares = sum(s.tokens for s in measured), sum(s.squares for s in measured)
    s_eff = squares / max(1, tokens)
    rates = [step.tokens / step.seconds / world for step in measured]
    rate = statistics.median(rates)
    work = rate * flops.model_flops(model, training, s_eff) / 1e12
    done = rate * flops.hardware_flops(model, training, s_eff) / 1e12
    return {
        "steps": len(measured),
        "overall": overall(measured, model, training, gpu),
        "seconds": _rounded(spread([step.seconds for step in measured])),
        "tokens_per_step": round(tokens / len(measured)),
        "sequences_per_step": sum(s.sequences for s in measured) / len(measured),
        "s_eff": round(s_eff, 1),
        "token_balance": round(statistics.mean(step.balance for step in measured), 4),
        "tokens_per_second_per_gpu": _rounded(spread(rates)),
        "model_tflops_per_gpu": round(work, 2),
        "hardware_tflops_per_gpu": round(done, 2),
        "mfu": round(work / gpu.peak_tflops, 4),
    }


def overall(
    steps: Sequence[Step], model: ModelConfig, training: Training, gpu: GpuModel
) -> dict[str, Any]:
    """Return all tokens over all seconds of some steps: slow steps count as long as they took."""
    tokens, seconds = sum(s.tokens for s in steps), sum(s.seconds for s in steps)
    s_eff = sum(s.squares for s in steps) / max(1, tokens)
    rate = tokens / seconds / training.layout.world
    work = rate * flops.model_flops(model, training, s_eff) / 1e12
    return {
        "tokens": tokens,
        "seconds": round(seconds, 3),
        "tokens_per_second_per_gpu": round(rate, 1),
        "pairs_per_second": round(sum(s.sequences for s in steps) / 2 / seconds, 3),
        "mfu": round(work / gpu.peak_tflops, 4),
    }


def reference_pass(note: Mapping[str, Any], rate: float | None) -> dict[str, float] | None:
    """Return the cost of the pass that computed the reference, and the rate that includes it.

    Over one epoch each token is read once by the pass and once by training, so that the seconds of
    a token add: 1 / (1 / training + 1 / pass).

    Args:
        note: ``reference.json`` of the run; with ``from: store`` another run paid for the pass.
        rate: tokens per second and GPU of training alone; None without measured steps.

    >>> reference_pass({"from": "pass", "seconds": 10.0, "tokens": 1, "pairs": 1,
    ...                 "tokens_per_second_per_gpu": 3000.0}, 1000.0)["over_one_epoch"]
    750.0
    >>> reference_pass({"from": "store"}, 1000.0), reference_pass({}, 1000.0)
    (None, None)
    """
    if note.get("from") != "pass" or not note.get("tokens_per_second_per_gpu"):
        return None
    alone = float(note["tokens_per_second_per_gpu"])
    found = {name: note[name] for name in ("seconds", "tokens", "pairs")}
    found["tokens_per_second_per_gpu"] = alone
    if rate:
        found["over_one_epoch"] = round(1 / (1 / rate + 1 / alone), 1)
    return found


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def memory(ranks: Ranks) -> dict[str, float]:
    """Return the peak memory of the fullest rank, in GiB."""
    before = max((who["before_training"] for who in ranks.who), default=0)
    return {
        "before_training_gib": round(before / GIB, 2),
        "allocated_gib": round(ranks.peak("allocated") / GIB, 2),
        "reserved_gib": round(ranks.peak("reserved") / GIB, 2),
    }


def start(ranks: Ranks, began: float) -> dict[str, float]:
    """Return the seconds from the start of torchrun to each phase's end, on the slowest rank."""
    firsts = [rows[0]["time"] for rows in ranks.rows if rows]
    ends = {
        "imported_s": [who["imported"] for who in ranks.who],
        "loaded_s": [who["loaded"] for who in ranks.who],
        "first_step_s": firsts,
    }
    return {name: round(max(times) - began, 1) for name, times in ends.items() if times}


def oracle(log: Sequence[Mapping[str, Any]], rpo: bool) -> dict[str, Any]:
    """Check the first loss: ln 2, unless RPO adds the likelihood of the chosen answers.

    >>> oracle([{"loss": 0.6931}], False)["ok"], oracle([{"loss": 0.7}], False)["ok"]
    (True, False)
    """
    if not log:
        return {"ok": False, "first": None}
    first = float(log[0]["loss"])
    return {"ok": rpo or abs(first - LN_2) < CLOSE, "first": first, "rpo": rpo}


def balance(log: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median load-balancing loss of the log: 1 is balanced."""
    seen = [float(row["load_balancing_loss"]) for row in log if "load_balancing_loss" in row]
    return round(statistics.median(seen), 4) if seen else None


def product(rows: Sequence[Mapping[str, Any]], warm_up: int = WARM_UP) -> dict[str, float]:
    """Return medians of the fields that only ``metrics.jsonl`` has, after the warm-up."""
    measured = [row for row in rows if row["step"] > warm_up]
    seen = {name: [row[name] for row in measured if row.get(name) is not None] for name in PRODUCT}
    return {name: round(statistics.median(each), 5) for name, each in seen.items() if each}


def self_report(
    rows: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    model: ModelConfig,
    training: Training,
    gpu: GpuModel,
) -> dict[str, Any] | None:
    """Compare the product's ``metrics.jsonl`` with the same steps here; None without rows.

    ``tokens``, ``tokens_per_second_per_gpu`` and ``mfu`` are the largest relative differences.
    """
    known = {step.number: step for step in steps}
    both = [(row, known[row["step"]]) for row in rows if row["step"] in known]
    if not both:
        return None
    off: dict[str, list[float]] = {"tokens": [], "tokens_per_second_per_gpu": [], "mfu": []}
    missing: set[str] = set()
    for row, step in both:
        rate = step.tokens / row["seconds"] / training.layout.world
        work = flops.model_flops(model, training, step.squares / max(1, step.tokens))
        offline = {
            "tokens": float(step.tokens),
            "tokens_per_second_per_gpu": rate,
            "mfu": rate * work / gpu.peak_tflops / 1e12,
        }
        missing |= {name for name in offline if row.get(name) is None}
        for name in off.keys() - missing:
            off[name].append(abs(row[name] / max(offline[name], 1e-12) - 1))
    worst = {name: round(max(each, default=0.0), 6) for name, each in off.items()}
    ok = not missing and max(worst.values()) <= TOLERANCE
    return {"rows": len(both), "ok": ok, **worst, "missing": sorted(missing)}

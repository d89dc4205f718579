"""Evaluations on held-out rows: lines of ``metrics.jsonl`` in addition to those of the steps.

A line has the trainer's numbers under its own names (``eval_loss``, ``eval_rewards/margins`` ...)
and no ``seconds``, so that it is no row of a step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launchers.config.recipe import Recipe
from launchers.metrics.rows import is_number

PREFIX = "eval_"
"""Of the trainer's numbers in an evaluation, in both of ms-swift's trainers."""
_SPEED = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "runtime",
        "samples_per_second",
        "steps_per_second",
        "model_preparation_time",
        "seconds",
    )
)
"""Numbers with the prefix that describe no quality of the model."""
_COUNTS = ("step", "total", "attempt")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation of the policy on the held-out rows."""

    step: int
    """Optimizer steps done before it; 0 before the first."""
    total: int
    """Steps of the whole run."""
    attempt: int
    time: float
    """Unix time at its end."""
    seconds: float
    values: Mapping[str, float | None] = field(default_factory=dict)
    """The trainer's numbers under its names, without ``PREFIX``: ``loss``, ``rewards/margins``."""

    def summary(self) -> dict[str, float | int | None]:
        """Return step, loss, accuracy and margin, for ``progress.json`` and logs."""
        return {
            "step": self.step,
            "loss": self.values.get("loss"),
            "accuracy": self.values.get("rewards/accuracies"),
            "margin": self.values.get("rewards/margins"),
        }


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The number by which evaluations are compared."""

    name: str = "loss"
    """Without ``PREFIX``."""
    greater: bool = False

    @classmethod
    def of(cls, recipe: Recipe) -> Measure:
        """Return ms-swift's choice: ``metric_for_best_model`` and ``greater_is_better``.

        After ``swift/megatron/arguments/megatron_args.py`` and ``swift/arguments/sft_args.py``.

        >>> Measure.of(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
        ...                   args={"metric_for_best_model": "rewards/accuracies"}))
        Measure(name='rewards/accuracies', greater=True)
        """
        name = recipe.arg("metric_for_best_model", "loss").removeprefix(PREFIX)
        default = "false" if "loss" in name else "true"
        return cls(name=name, greater=recipe.is_on("greater_is_better", default))

    def best(
        self, evaluations: Iterable[Evaluation], among: Collection[int] | None = None
    ) -> Evaluation | None:
        """Return the best evaluation, the latest of equal ones; None without a number.

        ``evaluations`` are in the order of steps; ``among`` are steps to choose from, None for all.
        """
        found: Evaluation | None = None
        for each in evaluations:
            value = each.values.get(self.name)
            if value is None or (among is not None and each.step not in among):
                continue
            before = None if found is None else found.values[self.name]
            if before is None or (value >= before if self.greater else value <= before):
                found = each
        return found


BY_LOSS = Measure()
"""ms-swift's default."""


def numbers(logged: Mapping[str, object]) -> dict[str, float]:
    """Return an evaluation's numbers among what a trainer logs; empty for a log of a step.

    >>> numbers({"eval_loss": 0.5, "eval_runtime": 3.0, "eval_rewards/margins": 1, "epoch": 1.0})
    {'loss': 0.5, 'rewards/margins': 1.0}
    """
    if f"{PREFIX}loss" not in logged:
        return {}
    return {
        name.removeprefix(PREFIX): float(value)
        for name, value in logged.items()
        if name.startswith(PREFIX) and name not in _SPEED and isinstance(value, int | float)
    }


def line(evaluation: Evaluation) -> str:
    """Return an evaluation as one line of JSON.

    >>> one = Evaluation(step=0, total=9, attempt=1, time=1.0, seconds=2.0, values={"loss": 0.7})
    >>> line(one)
    '{"step":0,"total":9,"attempt":1,"time":1.0,"eval_seconds":2.0,"eval_loss":0.7}'
    """
    return json.dumps(document(evaluation), separators=(",", ":"), allow_nan=False)


def document(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as the object of its line; numbers that are not finite become null.

    >>> one = Evaluation(step=0, total=9, attempt=1, time=1.0, seconds=2.0, values={"loss": 0.7})
    >>> of(document(one)) == one
    True
    """
    found: dict[str, Any] = {name: getattr(evaluation, name) for name in _COUNTS}
    found |= {"time": evaluation.time, f"{PREFIX}seconds": evaluation.seconds}
    for name, value in evaluation.values.items():
        found[f"{PREFIX}{name}"] = value if is_number(value) else None
    return found


def of(document: Mapping[str, Any]) -> Evaluation | None:
    """Return the evaluation that a line's object holds; None if it is none, or is not valid.

    >>> of({"step": 3, "total": 9, "attempt": 1, "time": 1.0, "seconds": 2.0, "loss": 0.7})
    """
    required = (*_COUNTS, "time", f"{PREFIX}seconds")
    if not all(is_number(document.get(name)) for name in required):
        return None
    step, total, attempt = (document[name] for name in _COUNTS)
    if not all(isinstance(each, int) for each in (step, total, attempt)):
        return None
    values = {
        name.removeprefix(PREFIX): value if is_number(value) else None
        for name, value in document.items()
        if name.startswith(PREFIX) and name not in _SPEED
    }
    return Evaluation(
        step=step,
        total=total,
        attempt=attempt,
        time=document["time"],
        seconds=document[f"{PREFIX}seconds"],
        values=values,
    )


def summary(evaluations: list[Evaluation], measure: Measure) -> dict[str, Any]:
    """Return a run's first, last and best evaluation and their cost; empty without one."""
    if not evaluations:
        return {}
    best = measure.best(evaluations)
    return {
        "first": evaluations[0].summary(),
        "last": evaluations[-1].summary(),
        "best": None if best is None else best.summary(),
        "by": measure.name,
        "evaluations": len(evaluations),
        "seconds": round(sum(each.seconds for each in evaluations), 3),
    }

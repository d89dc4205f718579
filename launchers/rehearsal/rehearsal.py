"""The decisions of a rehearsal: which flags of the recipe change, and when a process is killed.

A rehearsal is a run with few steps, through the same functions as the run itself:

    first attempt    steps 1 and 2, a save, steps 3 and 4; then one training process is killed
    next attempt     the checkpoint of step 2, steps 3 and 4, an evaluation, a save, the export

The row of step 3 holds the GPU's peak during the save, which is why the kill waits until step 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launchers.config.flag_value import Value
from launchers.config.rank import Place
from launchers.config.recipe import Recipe
from launchers.exits import USER
from launchers.plan.training_job import Arguments

KILL_VARIABLE = "DPO_REHEARSAL_KILL"
"""Environment variable of the training processes of the last node: the step after which the first
of them kills itself, once in a rehearsal; set by the launcher."""
KILL_RECORD = "rehearsal-kill.json"
"""File in the run's folder that is written just before the kill: time, step and rank."""
_BY_STEPS = ("save_strategy", "eval_strategy", "logging_strategy")


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The steps of a rehearsal."""

    save_at: int = 2
    """The step whose checkpoint the second attempt resumes from."""
    steps: int = 4
    """All steps; the process is killed after the last one, before it is evaluated and saved."""

    def recipe(self, given: Recipe) -> Recipe:
        """Return the recipe with the steps of the rehearsal; no other flag changes.

        >>> given = Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
        ...                args={"num_train_epochs": "1", "lr": "5e-6"})
        >>> sorted(Rehearsal().recipe(given).args)
        ['eval_steps', 'logging_steps', 'lr', 'save_steps', 'train_iters']
        """
        # With Megatron, epochs take precedence over steps; with transformers, steps over epochs.
        is_megatron = given.backend == "megatron"
        dropped = ("num_train_epochs",) if is_megatron else ()
        kept = {name: value for name, value in given.args.items() if name not in dropped}
        # transformers saves at multiples of eval_steps only, where it loads the best model
        is_best = given.is_on("load_best_model_at_end")
        changed: dict[str, Value] = {
            "train_iters" if is_megatron else "max_steps": str(self.steps),
            "save_steps": str(self.save_at),
            "eval_steps": str(self.save_at if is_best else self.steps),
            "logging_steps": "1",  # the transformers trainer measures the steps that it logs
            **{name: "steps" for name in _BY_STEPS if kept.get(name) == "epoch"},
            **_schedule(kept, self.steps),
        }
        return replace(given, args={**kept, **changed})

    def environment(self, place: Place) -> dict[str, str]:
        """Return the variable that lets one training process of the last node kill itself."""
        return {KILL_VARIABLE: str(self.steps)} if place.rank == place.nodes - 1 else {}


def _schedule(args: Mapping[str, Value], steps: int) -> dict[str, Value]:
    """Keep a warm-up in steps shorter than the decay, which by default ends with the run.

    megatron-core ``optimizer_param_scheduler.py``: ``lr_warmup_steps < lr_decay_steps``.
    """
    warm_up = Arguments(args=args).whole("lr_warmup_iters", 0)
    if not warm_up or "lr_decay_iters" in args:
        return {}
    return {"lr_decay_iters": str(warm_up + steps)}


def is_continued(before: Mapping[str, Any], digest: str) -> bool:
    """Return whether a start belongs to the rehearsal whose ``progress.json`` is given.

    A rehearsal that has succeeded or failed for good is over, as is one of another recipe or
    launcher.

    >>> is_continued({"digest": "d", "state": "failed", "code": 1}, "d")
    True
    >>> is_continued({"digest": "d", "state": "failed", "code": 78}, "d")
    False
    """
    is_over = before.get("state") == "succeeded" or before.get("code") in USER
    return before.get("digest") == digest and not is_over

"""Length of a run: tokens of a microbatch, steps, hours and GPU-hours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchers.config.recipe import SAVE_STEPS, Recipe
from launchers.plan import flops
from launchers.plan.model_config import ModelConfig
from launchers.plan.step_time import Speed
from launchers.plan.training_job import Arguments, Training

PACKED = 0.99
"""Mean fill of packs with ms-swift's bin packing, as a share: 0.996 to 0.998 of 40,000 pairs
in packs of 8k to 32k (tests/bench/notes/packs.md), 0.986 of 1,500 longer ones in packs of 8k in
training (tests/bench/results, bench-8-layers-2xh200); within 0.8 % of them all. A run's own
part is in its ``packing.json``."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    """Duration of a training run, without saving and start-up."""

    steps: int
    hours: float
    low: float
    """Hours if a step takes ``Speed.low``."""
    high: float
    gpu_hours: float
    reference_hours: float = 0.0
    """Part of ``hours`` spent on computing the reference once, before the first step."""


def per_step(training: Training, tokens: float) -> float:
    """Return the samples of one step; with packing, as many as fill the packs.

    ms-swift packs the texts of a pair together; a pair longer than a pack gets its own pack
    (``swift/dataset/packing.py``).
    """
    pack = training.packing_length or training.max_length
    if not training.packing or not pack:
        return float(training.global_batch_size)
    return training.global_batch_size * max(1.0, PACKED * pack / tokens)


def steps(training: Training, *, samples: float, tokens: float, epochs: float = 1.0) -> int:
    """Return the number of optimizer steps: Megatron-SWIFT drops an incomplete last one.

    ``samples`` are pairs, or rows for supervised training; ``tokens`` is their mean.
    """
    return max(1, math.floor(samples * epochs / per_step(training, tokens)))


def once(
    model: ModelConfig, training: Training, speed: Speed, *, samples: float, tokens: float
) -> float:
    """Return the seconds of the pass that computes the reference once; 0 without one.

    The pass is forward only, over all samples in the microbatches of the steps. Its time is
    that of a step without its optimizer, divided by the step's forward passes, recomputed layers
    included (``plan/flops.py``). An online reference costs the same in every epoch, so computing
    it once pays from the second epoch; the memory is saved at once.
    """
    if not training.precomputed:
        return 0.0
    whole = samples / per_step(training, tokens)
    passes = flops.passes(training) + flops.recomputed(model, training)
    return whole * (speed.step_seconds - speed.optimizer_seconds) / passes


def of_steps(training: Training, speed: Speed, count: int, before: float = 0.0) -> Duration:
    """Return the duration of ``count`` steps plus ``before`` seconds."""
    low, hours, high = (
        (count * each + before * each / speed.step_seconds) / 3600
        for each in (speed.low, speed.step_seconds, speed.high)
    )
    return Duration(
        steps=count,
        hours=hours,
        low=low,
        high=high,
        gpu_hours=hours * training.layout.world,
        reference_hours=before / 3600,
    )


@dataclass(frozen=True, kw_only=True)
class Evaluations:
    """The evaluations of a run on its held-out rows."""

    held_out: int
    """Rows that are not trained on."""
    evaluated: int
    """Rows of one evaluation: those that fill whole rounds of all replicas."""
    seconds: float
    """Of one evaluation."""
    count: int
    """Before the first step, every ``eval_steps``, and after the last."""

    def share(self, duration: Duration) -> float:
        """Return the evaluations' part of the run's time, 0 to 1."""
        total = self.seconds * self.count
        return total / (total + duration.hours * 3600)


def evaluations(
    recipe: Recipe, model: ModelConfig, training: Training, speed: Speed, data: Data, steps: int
) -> Evaluations | None:
    """Return the evaluations of a run; None if no rows of its datasets are held out.

    An evaluation is forward only, of the policy and of a reference that is not precomputed. A round
    of microbatches takes that part of a step's time without its optimizer, as in ``once``.

    Raises:
        LaunchError: CONFIG, naming the flag that is not a number.
        ValueError: the held-out rows do not fill a round of all replicas.
    """
    a = Arguments(args=recipe.args)
    rows = math.floor((data.pairs or 0) * a.number("split_dataset_ratio", 0.0))
    limit = a.whole("eval_iters", -1)
    if not rows or not limit:
        return None
    usual = training.microbatches
    per_round = per_step(training, data.computed) / usual
    rounds = math.floor(rows / per_round)
    if not rounds:
        raise ValueError(f"{rows} held-out rows are fewer than the {per_round:.0f} of a round")
    if limit > 0:
        rounds = min(rounds, limit * usual)
    layout = training.layout
    fill = (layout.pp - 1) / layout.chunks
    passes = flops.passes(training) + flops.recomputed(model, training)
    whole = (speed.step_seconds - speed.optimizer_seconds) / (usual + fill) / passes
    every = a.size("eval_steps", a.size("save_steps", SAVE_STEPS))
    return Evaluations(
        held_out=rows,
        evaluated=math.floor(rounds * per_round),
        seconds=whole * (rounds + fill) * (1.0 + training.compares),
        count=1 + math.ceil(steps / every),
    )


TOKENS = 2048
"""Default tokens per pair when the dataset's length is unknown: about 1,000 each for chosen and
rejected."""
LENGTH_SPREAD_RATIO = 1.5
"""Default ratio of sum(L^2) / sum(L) of the texts to their mean length: an estimate, for a
coefficient of variation of 0.7."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """A dataset, as far as the length of a run depends on it."""

    pairs: int | None
    """Rows; in DPO each is a chosen and a rejected text. None if only their length is known."""
    tokens: float
    """Mean tokens of a row, all its texts together."""
    again: float = 0.0
    """Those of them that are not computed: prompts of pairs (``recipe.promptOnce``)."""
    assumed: bool = False
    """Whether ``tokens`` is the default."""
    source: str
    """Origin of the numbers, for people."""

    @property
    def computed(self) -> float:
        """Return the mean tokens of a row in a pack."""
        return self.tokens - self.again


@dataclass(frozen=True, kw_only=True)
class Length:
    """A run from its first to its last step."""

    steps: int
    source: str


def s_eff(training: Training, data: Data | None) -> float:
    """Return sum(L^2) / sum(L) of the texts, on which attention's arithmetic depends."""
    texts = 2 if training.pairs else 1
    mean = (data.tokens if data else TOKENS) / texts
    return min(LENGTH_SPREAD_RATIO * mean, float(training.max_length or LENGTH_SPREAD_RATIO * mean))


def unpacked(training: Training, data: Data | None) -> int:
    """Return the tokens of the longest microbatch of several samples that are joined unpacked.

    One sample at the maximum and the others at the mean: 8 pairs at the maximum never meet. 0 where
    the flags alone decide.
    """
    if training.packing or not training.padding_free or training.micro_batch_size == 1:
        return 0
    longest, assumed = shortest(training), TOKENS * (1.0 if training.pairs else 0.5)
    mean = min(longest, data.tokens if data and not data.assumed else assumed)
    return math.ceil(longest + (training.micro_batch_size - 1) * mean)


def shortest(training: Training) -> int:
    """Return the tokens of the same microbatch where all rows but the longest are short."""
    return (2 if training.pairs else 1) * training.max_length


def microbatch_tokens(training: Training, data: Data | None) -> float:
    """Return the real tokens of a microbatch on average; 0 if unknown."""
    if training.packing:
        pack = PACKED * (training.packing_length or training.max_length)
        return training.micro_batch_size * max(pack, data.computed if data else 0.0)
    return training.micro_batch_size * data.tokens if data else 0.0


def predict_run_length(recipe: Recipe, training: Training, data: Data | None) -> Length | None:
    """Return the run's steps; None if neither the recipe nor the data determine them.

    ``swift/megatron/arguments/megatron_args.py`` ``init_iters``: epochs win over ``train_iters``.

    Raises:
        LaunchError: CONFIG, naming the flag that is not a number.
    """
    a = Arguments(args=recipe.args)
    if "num_train_epochs" in recipe.args:
        if data is None or data.pairs is None:
            return None
        rows = data.pairs * (1 - a.number("split_dataset_ratio", 0.0))
        epochs = a.number("num_train_epochs", 1)
        count = steps(training, samples=rows, tokens=data.computed, epochs=epochs)
        return Length(steps=count, source=data.source)
    if "train_iters" in recipe.args:
        return Length(steps=a.size("train_iters", 1), source="recipe.args.train_iters")
    return None

"""How long a data set takes: steps, hours and GPU-hours, with the band of the step's time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchers.plan import flops
from launchers.plan.model_config import Shape
from launchers.plan.step_time import Speed
from launchers.plan.training_job import Training

PACKED = 0.99
"""Part of a pack that real tokens fill, with ms-swift's bin packing: 0.996 to 0.998 of 40,000 pairs
in packs of 8k to 32k (README.md, "Rows and packs"), 0.986 of 1,500 longer ones in packs of 8k while
they trained (tests/gpu/results/bench-8-layers-2xh200.json); within 0.8 % of them all. A run's own
part is in its ``packing.json``."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    """One training run, saving and start-up not counted."""

    steps: int
    hours: float
    low: float
    """Hours if a step takes ``Speed.low``."""
    high: float
    gpu_hours: float
    reference_hours: float = 0.0
    """Of them, those of the pass before the first step that takes the reference's part once."""


def per_step(training: Training, tokens: float) -> float:
    """Return the samples of one step: with packing as many as fill the packs.

    ms-swift packs the texts of a pair together; one that is longer than a pack has one of its own
    (``swift/dataset/packing.py``).
    """
    pack = training.packing_length or training.max_length
    if not training.packing or not pack:
        return float(training.global_batch_size)
    return training.global_batch_size * max(1.0, PACKED * pack / tokens)


def steps(training: Training, *, samples: float, tokens: float, epochs: float = 1.0) -> int:
    """Return the optimizer's steps; arguments as of ``duration``."""
    # megatron-swift drops the last step that is not full
    return max(1, math.floor(samples * epochs / per_step(training, tokens)))


def duration(
    shape: Shape,
    training: Training,
    speed: Speed,
    *,
    samples: int,
    tokens: float,
    epochs: float = 1.0,
) -> Duration:
    """Return how long the samples take.

    Args:
        shape: of the model.
        training: the job.
        speed: of its step, predicted or measured.
        samples: pairs (or rows, for supervised training) of the data set.
        tokens: of one sample on average; a pair's are chosen and rejected together.
        epochs: how often each sample is seen.
    """
    count = steps(training, samples=samples, tokens=tokens, epochs=epochs)
    before = once(shape, training, speed, samples=samples, tokens=tokens)
    return of_steps(training, speed, count, before)


def once(shape: Shape, training: Training, speed: Speed, *, samples: float, tokens: float) -> float:
    """Return the seconds of the pass that takes the reference's part once; 0 without one.

    It is forward only, over all samples in the steps' own microbatches: of a step's time without
    the optimizer one part of as many as there are forward passes in it, those computed again
    counted by their layers (``plan/flops.py``). An online reference costs the same in every epoch, so
    that it pays from the second one; what it saves of memory it saves at once.
    """
    if not training.precomputed:
        return 0.0
    whole = samples / per_step(training, tokens)
    passes = flops.passes(training) + flops.recomputed(shape, training)
    return whole * (speed.step_seconds - speed.optimizer_seconds) / passes


def of_steps(training: Training, speed: Speed, count: int, before: float = 0.0) -> Duration:
    """Return how long so many steps take, and the seconds before them."""
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

"""How long a data set takes: steps, hours and GPU-hours, with the band of the step's time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchers.speed import Speed
from launchers.training import Training

PACKED = 0.98
"""Part of a pack that holds tokens, as bin packing fills them; an estimate, goal P5 of the data
path is to measure it."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    """One training run, saving and start-up not counted."""

    steps: int
    hours: float
    low: float
    """Hours if a step takes ``Speed.low``."""
    high: float
    gpu_hours: float


def duration(
    training: Training, speed: Speed, *, samples: int, tokens: float, epochs: float = 1.0
) -> Duration:
    """Return how long the samples take.

    Args:
        training: the job.
        speed: of its step, predicted or measured.
        samples: pairs (or rows, for supervised training) of the data set.
        tokens: of one sample on average; a pair's are chosen and rejected together.
        epochs: how often each sample is seen.
    """
    batch = float(training.global_batch_size)
    pack = training.packing_length or training.max_length
    if training.packing and pack:
        # a pack never holds less than one sample
        batch *= max(1.0, PACKED * pack / tokens)
    # megatron-swift drops the last step that is not full
    steps = max(1, math.floor(samples * epochs / batch))
    hours = steps * speed.step_seconds / 3600
    return Duration(
        steps=steps,
        hours=hours,
        low=steps * speed.low / 3600,
        high=steps * speed.high / 3600,
        gpu_hours=hours * training.layout.world,
    )

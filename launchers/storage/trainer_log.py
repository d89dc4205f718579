"""The trainer's log of steps (``logging.jsonl``)."""

from __future__ import annotations

import json
from pathlib import Path

from launchers.system.failures import tail

LOG = "logging.jsonl"
"""Written by ms-swift into its output folder, one row per logged step."""
_COUNTERS = ("global_step/max_steps", "iteration")
"""Names of the counter ``34/107`` in the transformers and the Megatron trainer."""


def last_step(checkpoints: Path) -> int | None:
    """Return the last optimizer step in the log; None before the first.

    Skips a partial last row and the final row, which has no step.
    """
    for line in reversed(tail(checkpoints / LOG).splitlines()):
        step = step_of(line)
        if step is not None:
            return step
    return None


def step_of(line: str) -> int | None:
    """Return the step of one row; None without one.

    >>> step_of('{"loss": 0.6, "iteration": "34/107"}'), step_of('{"last_model_checkpoint": ""}')
    (34, None)
    """
    try:
        row = json.loads(line)
        counter = next(str(row[name]) for name in _COUNTERS if name in row)
        return int(counter.partition("/")[0])
    except (ValueError, TypeError, StopIteration):
        return None

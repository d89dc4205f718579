"""How far training is, from the trainer's own log of steps."""

from __future__ import annotations

import json
from pathlib import Path

from launchers.system.failures import tail

LOG = "logging.jsonl"
"""ms-swift writes it into its output folder, a row per logged step."""
_COUNTERS = ("global_step/max_steps", "iteration")
"""``34/107`` under the transformers and the Megatron trainer's name."""


def last_step(checkpoints: Path) -> int | None:
    """Return the last optimizer step that the trainer has logged; None before the first.

    A torn last row, and the row without a step that ends a log, are passed over.
    """
    for line in reversed(tail(checkpoints / LOG).splitlines()):
        step = step_of(line)
        if step is not None:
            return step
    return None


def step_of(line: str) -> int | None:
    """Return the step of one row.

    >>> step_of('{"loss": 0.6, "iteration": "34/107"}'), step_of('{"last_model_checkpoint": ""}')
    (34, None)
    """
    try:
        row = json.loads(line)
        counter = next(str(row[name]) for name in _COUNTERS if name in row)
        return int(counter.partition("/")[0])
    except (ValueError, TypeError, StopIteration):
        return None

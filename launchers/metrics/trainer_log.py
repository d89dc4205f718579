"""The trainer's log of steps (``logging.jsonl``)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.system.failures import tail

LOG = "logging.jsonl"
"""Written by ms-swift into its output folder, one row per logged step."""
_COUNTERS = ("global_step/max_steps", "iteration")
"""Names of the counter ``34/107`` in the transformers and the Megatron trainer."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One row of the log with the step it belongs to."""

    number: int
    total: int
    row: dict[str, Any]
    """The row's fields by ms-swift's names: ``loss``, ``rewards/margins`` ..."""


def last_step(checkpoints: Path) -> int | None:
    """Return the last optimizer step in the log; None before the first.

    Skips a partial last row and the final row, which has no step.
    """
    for line in reversed(tail(checkpoints / LOG).splitlines()):
        step = parse_step(line)
        if step is not None:
            return step.number
    return None


def parse_step(line: str) -> Step | None:
    """Parse a row; None for a row without a step, or an incomplete line.

    >>> parse_step('{"loss": 0.6, "iteration": "34/107"}').number
    34
    >>> parse_step('{"last_model_checkpoint": ""}')
    """
    try:
        row = json.loads(line)
        counter = next(str(row[name]) for name in _COUNTERS if name in row)
        number, total = map(int, counter.split("/"))
    except (ValueError, TypeError, StopIteration):
        return None
    return Step(number=number, total=total, row=row)

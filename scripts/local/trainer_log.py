"""Steps in the trainer's log, `checkpoints/logging.jsonl` of a run, written by ms-swift."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COUNTERS = ("global_step/max_steps", "iteration")
"""Keys in which the transformers and the Megatron trainer write e.g. "34/100"."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One logged training step."""

    number: int
    total: int
    row: dict[str, float]
    """Metrics by ms-swift's names: loss, rewards/margins, rewards/accuracies ..."""


def parse_step(line: str) -> Step | None:
    """Return the step of a row; None for other rows (evaluation, summary, an incomplete line).

    >>> parse_step('{"loss": 0.5, "iteration": "3/10"}')
    Step(number=3, total=10, row={'loss': 0.5})
    """
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    counter = next((fields[name] for name in COUNTERS if name in fields), None)
    if counter is None or "loss" not in fields:
        return None
    number, total = str(counter).split("/")
    numbers = {name: value for name, value in fields.items() if isinstance(value, int | float)}
    return Step(number=int(number), total=int(total), row=numbers)


def read_steps(path: Path) -> list[Step]:
    """Return all steps in order; a step that was repeated after a resume counts once."""
    if not path.exists():
        return []
    rows = (parse_step(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [step for _, step in sorted({step.number: step for step in rows if step}.items())]


class Follower:
    """Read the rows that were added to a log since the last call."""

    def __init__(self, path: Path) -> None:
        """Start at the log's current end, after the steps of earlier attempts."""
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def newest(self) -> Step | None:
        """Return the newest complete step since the last call; None without one."""
        if not self._path.exists():
            return None
        with self._path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._offset += sum(map(len, whole))
        steps = (parse_step(line.decode(errors="replace")) for line in reversed(whole))
        return next((step for step in steps if step), None)

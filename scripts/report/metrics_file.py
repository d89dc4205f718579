"""Read ``metrics.jsonl`` of any length: the columns that the curves need, as arrays of numbers.

A million rows are about 700 MB of text; as arrays they are 8 bytes a number.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from scripts.report import numbers

MEASURED = (
    "seconds", "tokens_per_second_per_gpu", "mfu", "allocated_gib", "reserved_gib", "fill",
    "expert_load", "expert_load_worst", "token_balance", "grad_norm", "learning_rate",
)  # fmt: skip
"""Fields of a row that become curves."""
TRAINER = (
    "loss", "rewards/accuracies", "rewards/margins", "rewards/chosen", "rewards/rejected",
    "logps/chosen", "logps/rejected",
)  # fmt: skip
"""The trainer's own numbers that become curves."""
_LARGEST = 2.0**50
"""Any count or time is far below it, and axes of floats and arrays of whole numbers hold it."""


@dataclass
class Trained:
    """The steps of one attempt, those that count and those that were trained again."""

    trained_from: float = math.inf
    trained_until: float = -math.inf
    """End of its last step or evaluation."""
    first_step: int = 0
    last_step: int = 0
    lost_steps: int = 0
    lost_seconds: float = 0.0
    evaluation_seconds: float = 0.0


@dataclass
class Metrics:
    """The content of the file; columns hold the newest row of each step."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    attempts: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    columns: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in (*MEASURED, *TRAINER)}
    )
    logged: array[int] = field(default_factory=lambda: array("b"))
    """Whether the trainer logged a step: not each one, with `logging_steps` above 1."""
    tokens: array[int] = field(default_factory=lambda: array("q"))
    """Real tokens of each step; -1 where they were not counted."""
    evaluations: list[Evaluation] = field(default_factory=list)
    trained: dict[int, Trained] = field(default_factory=dict)
    last: Row | None = None
    torn: int = 0
    """Lines that are neither a row nor an evaluation."""
    unread: str = ""
    """Why the file was not read; empty if it was, or there is none."""

    def add(self, text: str) -> None:
        """Add the next line of the file."""
        match reader.parse(text):
            case Evaluation() as found if _is_plausible(found):
                reader.append(self.evaluations, found)
                attempt = self.trained.setdefault(found.attempt, Trained())
                if attempt.first_step:  # one before the first step belongs to the start
                    attempt.evaluation_seconds += found.seconds
                    attempt.trained_until = max(attempt.trained_until, found.time)
            case Row() as row if _is_plausible(row):
                self._add(row)
            case _:
                self.torn += bool(text.strip())

    def _add(self, row: Row) -> None:
        while self.steps and self.steps[-1] >= row.step:
            self._lose()
        attempt = self.trained.setdefault(row.attempt, Trained())
        if not attempt.first_step:
            attempt.first_step = row.step
            attempt.trained_from = row.time - row.seconds
        attempt.trained_until = max(attempt.trained_until, row.time)
        attempt.last_step = max(attempt.last_step, row.step)
        self.steps.append(row.step)
        self.attempts.append(row.attempt)
        self.times.append(row.time)
        for name in MEASURED:
            self.columns[name].append(_number(getattr(row, name)))
        for name in TRAINER:
            self.columns[name].append(_number(row.values.get(name)))
        self.logged.append("loss" in row.values)
        self.tokens.append(-1 if row.tokens is None else int(row.tokens))
        self.last = row

    def _lose(self) -> None:
        """Drop the newest step: it is trained again."""
        self.steps.pop()
        self.times.pop()
        self.tokens.pop()
        self.logged.pop()
        attempt = self.trained[self.attempts.pop()]
        attempt.lost_steps += 1
        attempt.lost_seconds += self.columns["seconds"][-1]
        for column in self.columns.values():
            column.pop()

    def kept(self) -> dict[int, tuple[float, float]]:
        """Return, by attempt, the seconds of its steps that count and the end of the last one."""
        found: dict[int, tuple[float, float]] = {}
        for attempt, time, seconds in zip(
            self.attempts, self.times, self.columns["seconds"], strict=True
        ):
            before, _ = found.get(attempt, (0.0, 0.0))
            found[attempt] = (before + seconds, time)
        return found


def _is_plausible(row: Row | Evaluation) -> bool:
    """Return whether columns and charts can hold a row's counts and times."""
    found = [row.step, row.total, row.attempt, row.time, row.seconds]
    if isinstance(row, Row):
        found += [each or 0 for each in (row.tokens, row.world)]
    return all(abs(each) < _LARGEST for each in found)


def _number(value: float | None) -> float:
    """Return NaN for what is missing, and for numbers that are too large to be drawn."""
    try:
        found = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if abs(found) < numbers.LARGEST else math.nan


def read_lines(lines: Iterable[str]) -> Metrics:
    """Read the lines of a file."""
    found = Metrics()
    for text in lines:
        found.add(text)
    return found


def read(path: Path) -> Metrics:
    """Read a file; an empty result without one."""
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            return read_lines(handle)
    except FileNotFoundError:
        return Metrics()
    except OSError as error:
        return Metrics(unread=str(error))

"""The result of the demo as tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from launchers.config.settings import STAGES
from launchers.metrics.trainer_log import Step


@dataclass(frozen=True, kw_only=True)
class Score:
    """Measurements of scripts/demo/score.py on the held-out pairs."""

    pairs: int
    accuracy_before: float
    accuracy_after: float
    margin_before: float
    margin_after: float
    tokens_per_pair: float


@dataclass(frozen=True, kw_only=True)
class Report:
    """All measurements of the demo."""

    steps: Sequence[Step]
    score: Score
    pairs_per_step: int
    phases: Mapping[str, tuple[float, str]]

    @property
    def tokens_per_second(self) -> float:
        """Return training tokens (chosen and rejected conversations) per second over all nodes.

        A step's seconds are the trainer's; tokens per pair are the held-out pairs' mean.
        """
        seconds = float(self.steps[-1].row["train_speed(s/it)"])
        return self.pairs_per_step * self.score.tokens_per_pair / seconds


def read_phases(progress: Path) -> dict[str, tuple[float, str]]:
    """Return seconds and state of each stage from the launcher's progress.json."""
    stages = json.loads(progress.read_text(encoding="utf-8"))["stages"]
    return {
        name: (float(stages[name].get("seconds") or 0.0), _state(stages[name]))
        for name in STAGES
        if name in stages
    }


def _state(stage: Mapping[str, str]) -> str:
    why = stage.get("why") or ""
    return f"{stage['state']}: {why}" if why and why != stage["state"] else stage["state"]


def table(report: Report) -> Table:
    """Return accuracy, margin and loss before and after training."""
    score, first, last = report.score, report.steps[0], report.steps[-1]
    shown = Table(title=f"DPO, {last.number} of {last.total} steps on two nodes")
    for name in ("measure", "before", "after"):
        shown.add_column(name, justify="left" if name == "measure" else "right", no_wrap=True)
    accuracies = (f"{score.accuracy_before:.3f}", f"{score.accuracy_after:.3f}")
    shown.add_row(f"accuracy on {score.pairs} held-out pairs", *accuracies)
    margins = (f"{score.margin_before:.2f}", f"{score.margin_after:.2f}")
    shown.add_row("reward margin on the same", *margins)
    shown.add_row("training loss", f"{first.row['loss']:.4f}", f"{last.row['loss']:.4f}")
    shown.add_row("training tokens/s", "", f"{report.tokens_per_second:,.0f}")
    return shown


def phase_table(report: Report) -> Table:
    """Return the time of each phase."""
    shown = Table()
    shown.add_column("phase")
    shown.add_column("seconds", justify="right", no_wrap=True)
    shown.add_column("state")
    for name, (seconds, state) in report.phases.items():
        shown.add_row(name, f"{seconds:.1f}", state)
    return shown

from pathlib import Path

from launchers.metrics.trainer_log import Step, parse_step


def read_losses(log: Path) -> list[Step]:
    """Return the rows that have a loss; a step that was trained again has several."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [step for step in map(parse_step, lines) if step and "loss" in step.row]

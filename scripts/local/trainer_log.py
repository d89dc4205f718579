"""Follow the trainer's log, `checkpoints/logging.jsonl` of a run, while it grows."""

from pathlib import Path

from launchers.metrics.trainer_log import Step, parse_step, read_losses


def read_steps(path: Path) -> list[Step]:
    """Return all steps in order; a step that was repeated after a resume counts once."""
    return [step for _, step in sorted({step.number: step for step in read_losses(path)}.items())]


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
        return next((step for step in steps if step and "loss" in step.row), None)

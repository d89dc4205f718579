"""Restarts in place: two real launchers with the real ms-swift on CPU lose a training process."""

import os
import signal
from pathlib import Path

from launchers.storage import checkpoint
from scripts.demo.sources import Sources
from tests.launchers.run.trained import SAVES, Trained, losses, stopped, worker, written
from tests.launchers.training_environment import needs_training

pytestmark = needs_training


def by_step(pods: Trained) -> dict[int, float]:
    """Return the losses of the run as it stands; a step that was repeated has its last one."""
    return dict(losses(pods))


def reached(pods: Trained, attempt: int, step: int) -> bool:
    file = pods.run / "metrics.jsonl"
    return file.exists() and any(
        row.attempt == attempt and row.step >= step for row in written(pods)
    )


def test_a_process_killed_in_a_save_restarts_from_the_checkpoint_before(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    pods = Trained(tmp_path, given=given, args={"save_steps": SAVES}, slow={"SAVE": 3})
    started = [pods.start(each, DPO_RESTARTS_IN_PLACE="1") for each in (0, 1)]
    pods.wait_for(lambda: (pods.signs / f"save-{2 * SAVES}-0").exists(), "second save")
    assert checkpoint.read_checkpoint(pods.run / "checkpoints" / f"checkpoint-{2 * SAVES}") is None
    os.kill(worker(started[0]), signal.SIGKILL)
    assert stopped(pods, started) == [0, 0], pods.said()
    assert [row.step for row in written(pods) if row.attempt == 2][0] == SAVES + 1
    assert by_step(pods) == dict(undisturbed)

"""Restarts in place: two real launchers with the real ms-swift on CPU lose a training process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from launchers.metrics import rows
from launchers.system.process import descendants
from scripts.demo import sources
from scripts.demo.sources import Sources
from tests.launchers.run.test_stop import STEPS, Trained, stopped
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = [needs_training, pytest.mark.timeout(600)]
SAVES = 3
"""Steps between two checkpoints."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    made = Sources(root=tmp_path_factory.mktemp("sources"))
    sources.make_pairs(made)
    sources.make_model(made, PYTHON)
    lines = made.pairs.read_text().splitlines(keepends=True)
    made.pairs.write_text("".join(lines[: 4 * STEPS]))
    return made


def losses(pods: Trained) -> list[tuple[int, float]]:
    return [(row.step, row.values["loss"] or 0.0) for row in rows.read(pods.run / "metrics.jsonl")]


@pytest.fixture(scope="module")
def undisturbed(
    given: Sources, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, float]]:
    pods = Trained(tmp_path_factory.mktemp("undisturbed"), given=given, args={"save_steps": SAVES})
    assert stopped(pods, [pods.start(rank) for rank in (0, 1)]) == [0, 0], pods.said()
    assert [step for step, _ in losses(pods)] == list(range(1, STEPS + 1))
    return losses(pods)


def worker(launcher: int) -> int:
    """Return the training process of a launcher: the child of its torchrun."""
    for pid in descendants(launcher):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if any(word.endswith("rlhf.py") for word in words) and "torch.distributed.run" not in words:
            return pid
    raise AssertionError("no training process")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_started_again_in_the_same_pods(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]], rank: int
) -> None:
    args = {"save_steps": SAVES}
    pods = Trained(tmp_path, given=given, args=args, slow={"STEP": 0.3})
    started = [pods.start(each, DPO_RESTARTS_IN_PLACE="1") for each in (0, 1)]
    pods.wait_for_step(SAVES + 1)
    killed = time.time()
    os.kill(worker(started[rank].pid), signal.SIGKILL)
    assert stopped(pods, started) == [0, 0], pods.said()
    again = [row for row in rows.read(pods.run / "metrics.jsonl") if row.attempt == 2]
    print("seconds", again[0].time - killed, pods.progress()["phases"], killed)
    assert again[0].step == SAVES + 1

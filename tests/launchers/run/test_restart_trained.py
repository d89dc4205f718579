"""Restarts in place: two real launchers with the real ms-swift on CPU lose training processes."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.standby.standby import AGENT
from launchers.storage import checkpoint
from launchers.system.proc_stat import has_ended
from launchers.system.process import descendants
from scripts.demo.sources import Sources
from tests.launchers.run.trained import (
    LONG,
    SAVES,
    STEPS,
    Trained,
    losses,
    stopped,
    worker,
    written,
)
from tests.launchers.training_environment import needs_training

pytestmark = [needs_training, pytest.mark.timeout(1800)]
STANDBY = {"DPO_RESTARTS_IN_PLACE": "1", "DPO_STANDBY": "1"}


@pytest.fixture(scope="module")
def undisturbed(
    given: Sources, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, float]]:
    """Train to the end; return the loss of each step."""
    pods = Trained(tmp_path_factory.mktemp("undisturbed"), given=given, args={"save_steps": SAVES})
    pods.complete()
    assert [step for step, _ in losses(pods)] == list(range(1, STEPS + 1))
    return losses(pods)


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


def started(pods: Trained, **change: str) -> list[subprocess.Popen[str]]:
    return [pods.start(rank, **{**STANDBY, **change}) for rank in (0, 1)]


def logged(pods: Trained, rank: int) -> str:
    return (pods.folder / f"pod-{rank}.log").read_text()


def wait_until_ready(pods: Trained, number: int = 1) -> None:
    """Hold the steps until each launcher has had so many standbys that were ready.

    The attempt of that number has trained a step after a checkpoint by then.
    """
    step = number * SAVES + 1
    pods.wait_for(lambda: reached(pods, number, step), f"step {step}")
    hold = pods.signs / "hold"
    hold.touch()
    pods.wait_for(
        lambda: all(logged(pods, rank).count("standby ready") >= number for rank in (0, 1)),
        f"standby {number}",
        3 * LONG,  # two standbys import while two ranks train, on two cores
    )
    hold.unlink()


def agents(launcher: subprocess.Popen[str]) -> list[int]:
    """Return the first processes of the standbys of a launcher, used ones, too."""
    found = descendants(launcher.pid)
    return [p for p in found if AGENT in Path(f"/proc/{p}/cmdline").read_text().split("\0")]


def test_two_restarts_use_a_standby_each_repeat_the_losses_and_leave_none(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    """A run that completes ends the standbys that no restart has used."""
    pods = Trained(tmp_path, given=given, args={"save_steps": SAVES}, slow={"STEP": 0.5})
    launchers = started(pods)
    for attempt in (1, 2):
        wait_until_ready(pods, attempt)
        os.kill(worker(launchers[1]), signal.SIGKILL)
    wait_until_ready(pods, 3)
    below = [pid for each in launchers for pid in descendants(each.pid)]
    assert [len(agents(each)) for each in launchers] == [2, 2]  # the one that trains, and one
    assert stopped(pods, launchers) == [0, 0], pods.said()
    assert all(map(has_ended, below))
    assert [logged(pods, rank).count("standby used") for rank in (0, 1)] == [2, 2]
    assert {row.attempt for row in written(pods)} == {1, 2, 3}
    assert {path.name for path in (pods.run / "attempts").iterdir()} == {"1", "2", "3"}
    assert by_step(pods) == dict(undisturbed)
    assert all(loss == dict(undisturbed)[step] for step, loss in losses(pods))
    restarts = pods.progress()["restarts_in_place"]
    assert [restart["attempt"] for restart in restarts] == [2, 3]
    assert all(0 < restart["seconds"] < LONG for restart in restarts)


def test_a_standby_that_was_killed_is_replaced_and_sigterm_ends_one_that_waits(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    """One launcher has none, and one worker of the other's has gone: the gang is a mix."""
    pods = Trained(tmp_path, given=given, args={"save_steps": SAVES}, slow={"STEP": 0.5})
    launchers = started(pods)
    wait_until_ready(pods)
    [first], [second] = agents(launchers[0]), agents(launchers[1])
    os.kill(first, signal.SIGKILL)
    [waiting] = descendants(second)
    os.kill(waiting, signal.SIGKILL)
    os.kill(worker(launchers[1]), signal.SIGKILL)
    wait_until_ready(pods, 2)
    assert ["standby used" in logged(pods, rank) for rank in (0, 1)] == [False, True]
    below = [pid for each in launchers for pid in descendants(each.pid)]
    began = time.monotonic()
    launchers[0].send_signal(signal.SIGTERM)
    assert stopped(pods, launchers) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    assert time.monotonic() - began < LONG / 2
    assert all(map(has_ended, below))
    assert by_step(pods) == dict(undisturbed[: pods.saved()])
    assert {row.attempt for row in written(pods)} == {1, 2}

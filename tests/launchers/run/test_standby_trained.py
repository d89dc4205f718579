"""Restarts in place with a standby: two real launchers with the real ms-swift on CPU."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.standby.standby import AGENT
from launchers.system.proc_stat import has_ended
from launchers.system.process import descendants
from scripts.demo.sources import Sources
from tests.launchers.run.test_restart_trained import by_step, reached
from tests.launchers.run.trained import LONG, SAVES, Trained, losses, stopped, worker, written
from tests.launchers.training_environment import needs_training

pytestmark = [needs_training, pytest.mark.timeout(1800)]
RESTARTS = {"DPO_RESTARTS_IN_PLACE": "1", "DPO_STANDBY": "1"}


def started(pods: Trained, **change: str) -> list[subprocess.Popen[str]]:
    return [pods.start(rank, **{**RESTARTS, **change}) for rank in (0, 1)]


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


def test_two_restarts_in_a_row_use_a_standby_each_and_repeat_the_losses(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    pods = Trained(tmp_path, given=given, args={"save_steps": SAVES}, slow={"STEP": 0.5})
    launchers = started(pods)
    for attempt in (1, 2):
        wait_until_ready(pods, attempt)
        os.kill(worker(launchers[1]), signal.SIGKILL)
    assert stopped(pods, launchers) == [0, 0], pods.said()
    assert [logged(pods, rank).count("standby used") for rank in (0, 1)] == [2, 2]
    assert {row.attempt for row in written(pods)} == {1, 2, 3}
    assert by_step(pods) == dict(undisturbed)
    assert all(loss == dict(undisturbed)[step] for step, loss in losses(pods))
    restarts = pods.progress()["restarts_in_place"]
    assert [restart["attempt"] for restart in restarts] == [2, 3]
    assert all(0 < restart["seconds"] < LONG for restart in restarts)


def test_a_standby_that_was_killed_is_replaced_by_a_new_torchrun(
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
    assert stopped(pods, launchers) == [0, 0], pods.said()
    assert ["standby used" in logged(pods, rank) for rank in (0, 1)] == [False, True]
    assert by_step(pods) == dict(undisturbed)
    assert {row.attempt for row in written(pods)} == {1, 2}


def test_sigterm_saves_and_ends_while_a_standby_waits(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, given=given, slow={"STEP": 0.5})
    launchers = started(pods)
    wait_until_ready(pods)
    below = [pid for each in launchers for pid in descendants(each.pid)]
    began = time.monotonic()
    launchers[0].send_signal(signal.SIGTERM)
    assert stopped(pods, launchers) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    assert time.monotonic() - began < LONG / 2
    assert all(map(has_ended, below))


def test_a_run_that_completes_leaves_no_standby(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    pods = Trained(tmp_path, given=given, args={"save_steps": SAVES}, slow={"STEP": 0.5})
    launchers = started(pods)
    wait_until_ready(pods)
    [[first], [second]] = [agents(each) for each in launchers]
    below = [first, second, *descendants(first), *descendants(second)]
    assert len(below) == 4
    assert stopped(pods, launchers) == [0, 0], pods.said()
    assert all(map(has_ended, below))
    assert losses(pods) == undisturbed  # the standby took nothing from the run but time
    assert sorted(path.name for path in (pods.run / "attempts").iterdir()) == ["1"]

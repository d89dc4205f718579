"""The two faults of a visit on a fake runner, and the checks of failed runs."""

import argparse
import copy
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launchers.metrics.rows import Row
from launchers.system.process import adopt_orphans, kill_descendants
from tests.gpu.launcher import faults, judge
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.fake_launch import CHILD
from tests.gpu.launcher.run import Run


@dataclass(frozen=True, kw_only=True)
class Fake(Run):
    """A run with the fake runner."""

    mode: str = ""

    def command(self) -> list[str]:
        """Return the command line of the fake runner."""
        pods = self.workspace / "pods" / self.name
        words = [str(self.home), str(pods), str(faults.STEPS), str(faults.SAVES)]
        return [sys.executable, "-m", "tests.gpu.launcher.fake_launch", *words, self.mode]


def survive(tmp_path: Path, mode: str, moment: str = "save") -> dict[str, Any]:
    run = Fake(
        name="r", manifest=tmp_path, log=tmp_path / "log", workspace=tmp_path / "w", mode=mode
    )
    run.home.mkdir(parents=True)
    record: dict[str, Any] = {}
    adopt_orphans()
    try:
        faults.flow(run, 30, record, moment)
    except TimeoutError as error:
        record["error"] = str(error)
    finally:
        kill_descendants()
    faults.conclude(run, record)
    return record


def test_a_run_that_survives_both_faults_is_reported_in_seconds(tmp_path: Path) -> None:
    record = survive(tmp_path, "well")
    assert judge.complaints(record, faults.STEPS) == []
    stop, kill = record["stop"], record["kill"]
    assert (stop["exit"], stop["pods"], stop["started"]) == (143, [75, 75], ["checkpoint-8"])
    assert (stop["newest_before"], stop["newest"], stop["unsealed"]) == (4, 8, [])
    assert stop["repeated"]["first"] == 9 and stop["repeated"]["steps"] == []
    assert (
        kill["repeated"]["exact"]
        and kill["repeated"]["first"] == 9
        and kill["last"] >= faults.KILL_AT
    )
    assert 0 < kill["first_step_s"] < kill["new_step_s"] < 30


def test_a_stop_in_a_step_saves_that_step(tmp_path: Path) -> None:
    record = survive(tmp_path, "well", "step")
    assert judge.complaints(record, faults.STEPS) == []
    stop = record["stop"]
    assert (stop["newest_before"], stop["started"], stop["unsealed"]) == (4, [], [])
    assert stop["newest"] >= stop["step"] >= faults.STOP_AT
    assert stop["repeated"]["first"] == stop["newest"] + 1 and stop["repeated"]["steps"] == []


def test_a_stop_in_a_step_that_is_not_saved_is_said(tmp_path: Path) -> None:
    said = "\n".join(judge.complaints(survive(tmp_path, "loses", "step"), faults.STEPS))
    assert "SIGTERM after step 6 left [] incomplete, and checkpoint 4 is the newest" in said


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("tears", "left ['checkpoint-8'] incomplete, and checkpoint 4 is the newest complete one"),
        ("forgets", "continued with step 10 and repeated the steps []; it had saved step 8"),
        ("drifts", "losses differ by 0.01 in the first repeated step"),
    ],
)
def test_what_a_run_does_wrong_is_said(mode: str, says: str, tmp_path: Path) -> None:
    assert says in "\n".join(judge.complaints(survive(tmp_path, mode), faults.STEPS))


def row(step: int, attempt: int, time: float = 0.0, loss: float = 0.69) -> Row:
    return Row(step=step, total=14, attempt=attempt, time=time, seconds=1.0, values={"loss": loss})


def test_seconds_count_to_the_step_that_was_not_done_before() -> None:
    rows = [row(9, 2, 100), row(10, 2, 101), row(9, 3, 141.0), row(10, 3, 142), row(11, 3, 143.5)]
    seen = judge.recovery(rows, 101.5, 2, 3)
    assert seen == {"last": 10, "first_step_s": 39.5, "new_step_s": 42.0}
    assert judge.recovery(rows[:2], 101.5, 2, 3)["new_step_s"] is None


def test_losses_on_another_course_pass_and_a_first_step_that_differs_does_not() -> None:
    rows = [row(5, 1), row(6, 1, loss=0.68), row(5, 2), row(6, 2, loss=0.683)]
    again = judge.repeated(rows, 1, 2)
    assert (again["first"], again["steps"], again["exact"]) == (5, [5, 6], False)
    assert again["apart"] == pytest.approx(0.003)
    assert judge._of_repeat("then", {"repeated": again, "newest": 4}) == []
    again = judge.repeated([row(5, 1), row(5, 2, loss=0.691)], 1, 2)
    assert "0.001 in the first" in judge._of_repeat("x", {"repeated": again, "newest": 4})[0]


def test_each_thing_that_must_hold_is_looked_at() -> None:
    again = {"first": 5, "steps": [5], "exact": True, "first_apart": 0.0, "apart": 0.0}
    stop = {"exit": 143, "pods": [75, 75], "started": ["checkpoint-8"], "newest_before": 4}
    stop |= {"unsealed": [], "newest": 8, "repeated": {**again, "first": 9, "steps": []}}
    kill = {"newest": 8, "repeated": {**again, "first": 9}, "new_step_s": 40.0, "in_place": []}
    good: dict[str, Any] = {"stop": stop, "kill": kill, "exit": 0, "last_step": 14}
    assert judge.complaints(good, 14) == []
    for place, name, value, says in (
        ("stop", "exit", 1, "ended the run with 1"),
        ("stop", "pods", [75, 137], "its pods with [75, 137]"),
        ("stop", "unsealed", ["checkpoint-8"], "left ['checkpoint-8'] incomplete"),
        ("stop", "newest", 4, "checkpoint 4 is the newest complete one"),
        ("stop", "repeated", None, "continued with step None"),
        ("kill", "new_step_s", None, "no new step after the kill"),
        ("kill", "newest", 12, "continued with step 9"),
    ):
        bad = copy.deepcopy(good)
        bad[place][name] = value
        assert says in "\n".join(judge.complaints(bad, 14))
    assert "0 restarts in place followed, not 1" in judge.complaints(
        {**good, "restarts_in_place": 3}, 14
    )
    assert "not with 0 after 14" in judge.complaints({**good, "last_step": 13}, 14)[0]
    assert judge.complaints({"error": "no step 10"}, 14)[-1] == "no step 10"


def test_an_odd_number_of_gpus_is_refused() -> None:
    options = argparse.Namespace(gpus=3, label="x", profile="a.yaml", pairs=1)
    with pytest.raises(ValueError, match="write an even number"):
        faults.launches(options)


def test_only_the_ranks_of_this_run_are_found(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    rank = f"import pathlib, time; pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    agent = [sys.executable, "-c", CHILD, rank, "torch.distributed.run"]
    with subprocess.Popen(agent) as other, subprocess.Popen(["sleep", "60"]) as run:
        launch_run.wait_for("a rank", ready.exists, 20)
        assert launch_run.ranks(run.pid) == []
        (found,) = launch_run.ranks(other.pid)
        launch_run.kill(found, signal.SIGKILL)
        assert other.wait(20) == 0
        run.kill()

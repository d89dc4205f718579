"""The longest save of a run is known to its later attempts."""

import json
from pathlib import Path

from launchers.config.workspace import Workspace
from launchers.progress import save_times


def test_the_longest_save_of_all_attempts_or_the_plan_counts(tmp_path: Path) -> None:
    work = Workspace(root=tmp_path, run="r")
    assert save_times.known(work) == 0
    for number, seconds in ((1, (0.0, 30.0, 20.0)), (2, (10.0,)), (3, (40.0,))):
        folder = work.attempts / str(number)
        folder.mkdir(parents=True)
        record = save_times.recorder(folder)
        for each in seconds:
            record(each)
    assert save_times.known(work) == 40
    assert not (work.attempts / "2" / save_times.FILE).exists()
    work.plan.write_text(json.dumps({"footprint": {"save_seconds": 50}}))
    assert save_times.known(work) == 50
    work.plan.write_text(json.dumps({"footprint": None}))
    (work.attempts / "3" / save_times.FILE).write_text("torn")
    assert save_times.known(work) == 30


def test_a_workspace_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    save_times.recorder(tmp_path / "runs" / "r" / "attempts" / "1")(5.0)

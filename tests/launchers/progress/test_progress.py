import json
import time
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.progress import progress as module
from launchers.progress import startup
from launchers.progress.progress import Progress, reporting
from launchers.storage import run_lease
from launchers.storage.run_lease import RunLease


def read(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def test_the_file_follows_the_stages_in_their_order(tmp_path: Path) -> None:
    progress = Progress(path=tmp_path / "runs" / "r" / "progress.json", run="r", digest="d")
    progress.begin("download")
    assert read(progress.path)["stages"]["download"]["state"] == "running"
    progress.end("done")
    progress.begin("clone")
    progress.end("skipped", "no code.url")
    progress.finish("succeeded")
    document = read(progress.path)
    assert list(document["stages"]) == ["clone", "download"]
    assert document["stages"]["clone"]["why"] == "no code.url"
    assert document["state"] == "succeeded"


def test_a_failure_ends_the_stage_that_was_under_way(tmp_path: Path) -> None:
    progress = Progress(path=tmp_path / "progress.json", run="r", digest="d")
    progress.begin("clone")
    progress.end("done")
    progress.begin("download")
    progress.finish("failed", "404 for hf://o/m", 66)
    document = read(progress.path)
    assert (document["state"], document["code"]) == ("failed", 66)
    assert (document["why"], document["digest"]) == ("404 for hf://o/m", "d")
    stages = document["stages"]
    assert stages["clone"]["state"] == "done"
    assert (stages["download"]["state"], stages["download"]["why"]) == (
        "failed",
        "404 for hf://o/m",
    )


def test_an_interrupted_start_keeps_the_state_of_training(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    first = Progress(path=path, run="r", digest="d")
    first.begin_training(2)
    first.training = {"step": 30, "loss": 0.5}
    first.finish("succeeded")
    Progress(path=path, run="r", digest="d").begin("download")  # and is killed
    Progress(path=path, run="r", digest="d").finish("failed", "404 for hf://o/m", 66)
    again = Progress(path=path, run="r", digest="d")
    again.finish("succeeded")
    found = read(path)
    assert (found["attempt"], found["training"]) == (2, {"step": 30, "loss": 0.5})
    again.begin_training(3)
    assert (read(path)["attempt"], read(path)["training"]) == (3, {})


@pytest.mark.parametrize("text", ["[]", '{"training": 1, "attempt": "x"}', '{"attempt": null}'])
def test_another_ones_file_is_no_training(tmp_path: Path, text: str) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text)
    Progress(path=path, run="r", digest="d").begin("clone")
    assert (read(path)["attempt"], read(path)["training"]) == (0, {})


@pytest.fixture
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """Return the file of a run whose lock cannot be read."""
    monkeypatch.setattr(module, "LOOKUP_SECONDS", 0.2)
    lease = RunLease(tmp_path / "away" / "run.lock", "t")
    monkeypatch.setenv(run_lease.VARIABLE, str(lease))
    return Progress(path=tmp_path / "progress.json", run="r", digest="d")


def test_a_lock_that_cannot_be_read_hides_no_failure(unknown: Progress) -> None:
    begin = time.monotonic()
    with pytest.raises(LaunchError) as end, reporting(unknown):
        raise LaunchError(Exit.DATA, "row 3 is empty", "fix it", id="row-empty")
    assert end.value.id == "row-empty"
    assert time.monotonic() - begin < 10, "waits longer than a pod that is terminating may"


def test_a_lock_that_cannot_be_read_does_not_end_the_report_of_the_start(unknown: Progress) -> None:
    startup._report(unknown, [{}], is_first=False)
    assert not unknown.path.exists()

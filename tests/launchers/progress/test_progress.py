import time
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.progress import progress as module
from launchers.progress import startup
from launchers.progress.progress import Progress, reporting
from launchers.storage import run_lease
from launchers.storage.run_lease import RunLease
from tests.launchers.pods import read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "r" / "progress.json"


def progress_at(path: Path) -> Progress:
    return Progress(path=path, run="r", digest="d")


def test_the_file_follows_the_stages_in_their_order(path: Path) -> None:
    progress = progress_at(path)
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


def test_a_failure_ends_the_stage_that_was_under_way(path: Path) -> None:
    progress = progress_at(path)
    progress.begin("clone")
    progress.end("done")
    progress.begin("download")
    progress.finish("failed", "404 for hf://o/m", 66)
    document = read(progress.path)
    assert (document["state"], document["code"]) == ("failed", 66)
    assert (document["why"], document["digest"]) == ("404 for hf://o/m", "d")
    clone, download = document["stages"]["clone"], document["stages"]["download"]
    assert clone["state"] == "done"
    assert (download["state"], download["why"]) == ("failed", "404 for hf://o/m")


def test_an_interrupted_start_keeps_the_state_of_training(path: Path) -> None:
    first = progress_at(path)
    first.begin_training(2)
    first.training = {"step": 30, "loss": 0.5}
    first.finish("succeeded")
    progress_at(path).begin("download")  # and is killed
    progress_at(path).finish("failed", "404 for hf://o/m", 66)
    again = progress_at(path)
    again.finish("succeeded")
    found = read(path)
    assert (found["attempt"], found["training"]) == (2, {"step": 30, "loss": 0.5})
    again.begin_training(3)
    assert (read(path)["attempt"], read(path)["training"]) == (3, {})


@pytest.mark.parametrize("text", ["[]", '{"training": 1, "attempt": "x"}', '{"attempt": null}'])
def test_another_ones_file_is_no_training(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    progress_at(path).begin("clone")
    assert (read(path)["attempt"], read(path)["training"]) == (0, {})


@pytest.fixture
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """Return the file of a run whose lock cannot be read."""
    monkeypatch.setattr(module, "LOOKUP_SECONDS", 0.2)
    lease = RunLease(tmp_path / "away" / "run.lock", "t")
    monkeypatch.setenv(run_lease.VARIABLE, str(lease))
    return progress_at(tmp_path / "progress.json")


def test_a_lock_that_cannot_be_read_hides_no_failure(unknown: Progress) -> None:
    begin = time.monotonic()
    with pytest.raises(LaunchError) as end, reporting(unknown):
        raise LaunchError(Exit.DATA, "row 3 is empty", "fix it", id="row-empty")
    assert end.value.id == "row-empty"
    assert time.monotonic() - begin < 10, "waits longer than a pod that is terminating may"


def test_a_lock_that_cannot_be_read_does_not_end_the_report_of_the_start(unknown: Progress) -> None:
    startup._report(unknown, [{}], is_first=False)
    assert not unknown.path.exists()

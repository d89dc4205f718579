import json
import time
from pathlib import Path

import pytest

from launchers.progress import startup
from launchers.progress.phases import Marks, durations, marks_of, merge, process_start, read
from launchers.progress.progress import Progress
from launchers.progress.startup import following
from tests.launchers.waiting import eventually


def reported(path: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(path.read_text())["phases"]
    return found


def test_a_process_knows_when_it_was_started() -> None:
    assert 0 < time.time() - process_start() < 3600
    assert process_start(now=5.0) < 5.0


def test_only_the_first_end_of_a_phase_counts(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "phases-0.json")
    marks.mark("imports", 5.0)
    marks.mark("imports", 6.0)
    assert read(tmp_path / "phases-0.json")["imports"] == 5.0


@pytest.mark.parametrize(("rank", "kept"), [("0", True), ("1", False), ("3", True)])
def test_the_first_and_the_last_rank_report(tmp_path: Path, rank: str, kept: bool) -> None:
    env = {"RANK": rank, "WORLD_SIZE": "4", "DPO_ATTEMPT_FOLDER": str(tmp_path)}
    marks_of(env).mark("imports")
    assert (tmp_path / f"phases-{rank}.json").exists() == kept


def test_a_function_ends_a_phase_by_its_call_or_by_its_return(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "p.json")

    def build(size: int) -> int:
        assert "before" in read(tmp_path / "p.json")
        assert "after" not in read(tmp_path / "p.json")
        return size

    assert marks.ending("after", marks.entering("before", build))(3) == 3
    assert "after" in read(tmp_path / "p.json")


def test_a_full_disk_ends_no_training_and_a_torn_file_is_no_phase(tmp_path: Path) -> None:
    Marks(tmp_path / "no" / "folder").mark("imports")
    (tmp_path / "p.json").write_text('{"imports": 1')
    assert read(tmp_path / "p.json") == read(tmp_path / "missing") == {}


def test_a_phase_lasts_from_the_end_of_the_one_before_on_the_slowest_process() -> None:
    marks = merge({"container": 0.0}, {"imports": 4.0, "policy": 5.0}, {"imports": 3.0})
    assert durations(marks) == {"imports": 4.0, "policy": 1.0}


def training(folder: Path, **times: float) -> None:
    (folder / "phases-0.json").write_text(json.dumps(times))


def progress(folder: Path) -> Progress:
    return Progress(path=folder / "progress.json", run="r", digest="d", phases={"container": 100.0})


def test_the_start_is_reported_once_the_first_step_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(startup, "POLL_SECONDS", 0.01)
    of, saved = progress(tmp_path), []
    with caplog.at_level("INFO"), following(of, tmp_path, 4, lambda: saved.append(1)):
        training(tmp_path, imports=110.0, first_step=160.54)
        assert eventually(of.path.exists)
        assert reported(of.path) == {"container": 100.0, "imports": 110.0, "first_step": 160.54}
        assert not saved
        training(tmp_path, imports=110.0, first_step=160.54, second_step=162.0)
        assert eventually(lambda: saved == [1])
    assert "first step after=60.5 imports=10 first_step=50.5\n" in caplog.text
    assert reported(of.path)["second_step"] == 162.0
    assert saved == [1]


def test_after_a_restart_in_place_the_phases_begin_with_the_failure(tmp_path: Path) -> None:
    of = progress(tmp_path)
    of.restart(2, failed=200.0, why="rank 1: killed")
    begun = {"attempt": 2, "why": "rank 1: killed", "failed": 200.0, "seconds": None}
    assert of.restarts == [begun]
    with following(of, tmp_path, 1, lambda: None):
        training(tmp_path, imports=210.0, first_step=212.5, second_step=213.0)
    found = json.loads(of.path.read_text())
    assert "container" not in found["phases"] and found["phases"]["failed"] == 200.0
    assert (found["attempt"], found["restarts_in_place"][0]["seconds"]) == (2, 12.5)


@pytest.mark.parametrize(("phase", "kept"), [("first_step", [1]), ("imports", [])])
def test_a_training_that_ends_keeps_its_kernels_after_its_first_step(
    tmp_path: Path, phase: str, kept: list[int]
) -> None:
    saved: list[int] = []
    of = progress(tmp_path)
    with pytest.raises(KeyError), following(of, tmp_path, 1, lambda: saved.append(1)):
        training(tmp_path, **{phase: 120.0})
        raise KeyError
    assert saved == kept and reported(of.path)[phase] == 120.0


def test_the_last_node_follows_its_own_rank(tmp_path: Path) -> None:
    saved: list[int] = []
    with following(None, tmp_path, 4, lambda: saved.append(1)):
        (tmp_path / "phases-3.json").write_text('{"first_step": 1.0}')
    assert saved == [1]

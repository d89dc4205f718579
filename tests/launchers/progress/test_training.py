"""State of training in ``progress.json`` while it runs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows as metrics
from launchers.metrics import writer
from launchers.metrics.rows import Row
from launchers.progress.progress import Progress
from launchers.progress.training import Tail, Timeline, log_held_out, summarising
from tests.launchers.waiting import eventually

SPEED: dict[str, Any] = {"tokens_per_second_per_gpu": 5000.0, "mfu": 0.15, "data_seconds": 0.1}


def text(step: int, attempt: int = 1, seconds: float = 2.0) -> str:
    values = {"loss": 0.6, "rewards/margins": 0.4, "rewards/accuracies": 0.75}
    at: dict[str, Any] = {"step": step, "total": 100, "attempt": attempt}
    return metrics.line(Row(**at, time=0.0, seconds=seconds, values=values, **SPEED))


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(path=tmp_path / "p.json", run="r", digest="d")


def reported(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["training"] if path.exists() else {}
    return found


def test_training_is_reported_while_it_runs_and_at_its_end(
    tmp_path: Path, progress: Progress
) -> None:
    rows = tmp_path / "metrics.jsonl"
    with summarising(progress, rows, every=0.05):
        writer.append(rows, text(1, seconds=30.0))
        writer.append(rows, text(2))
        writer.append(rows, text(3))
        assert eventually(lambda: reported(progress.path).get("step") == 3)
        found = reported(progress.path)
        writer.append(rows, text(4))
    assert found["eta_seconds"] == 97 * 2.0  # the first, slow step does not count
    assert (found["loss"], found["margin"], found["accuracy"]) == (0.6, 0.4, 0.75)
    assert (found["tokens_per_second_per_gpu"], found["mfu"]) == (5000.0, 0.15)
    assert found["data_share"] == 0.05
    assert reported(progress.path)["step"] == 4


def test_goodput_counts_no_step_twice_and_the_time_of_all_attempts() -> None:
    timeline = Timeline()
    timeline.add([text(step) for step in (1, 2, 3, 4)])  # 4 was not saved: its work was lost
    assert timeline.summary(10.0, 0.0)["goodput"] == 0.8
    timeline.add([text(3, attempt=2)])
    found = timeline.summary(20.0, 0.0)
    assert (found["step"], found["attempt"], found["goodput"]) == (3, 2, 6 / 20)


def test_before_the_first_step_nothing_is_reported(tmp_path: Path, progress: Progress) -> None:
    with summarising(progress, tmp_path / "metrics.jsonl", every=0.01):
        time.sleep(0.05)
    assert not progress.path.exists()
    assert progress.training == {}


def test_no_row_of_the_file_ends_a_run_that_has_trained(
    tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append(tmp_path / "metrics.jsonl", text(1))
    monkeypatch.setattr(Timeline, "summary", lambda *given: 1 / 0)
    with summarising(progress, tmp_path / "metrics.jsonl"):
        pass


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path=path)
    assert tail.lines() == []
    path.write_text("one\ntw")
    assert tail.lines() == ["one"]
    with path.open("a") as handle:
        handle.write("o\nthree\n")
    assert tail.lines() == ["two", "three"]
    path.write_text("new\n")  # another file, shorter
    assert tail.lines() == ["new"]


def test_the_first_start_outlasts_restarts_and_changed_recipes(tmp_path: Path) -> None:
    first = Progress(path=tmp_path / "p.json", run="r", digest="d", started=1000.0)
    first.begin("clone")
    again = Progress(path=tmp_path / "p.json", run="r", digest="other", started=5000.0)
    again.begin("clone")
    document = json.loads((tmp_path / "p.json").read_text())
    assert (document["first_started"], document["started"]) == (1000.0, 5000.0)


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"first_started": null}'])
def test_a_progress_file_that_cannot_be_read_is_no_first_start(tmp_path: Path, torn: str) -> None:
    (tmp_path / "p.json").write_text(torn)
    assert Progress(path=tmp_path / "p.json", run="r", digest="d", started=7.0).first_started == 7.0


def held_out(step: int, loss: float) -> str:
    values = {"loss": loss, "rewards/margins": 0.1, "rewards/accuracies": 0.8}
    one = Evaluation(step=step, total=9, attempt=1, time=0.0, seconds=1.5, values=values)
    return evaluations.line(one)


def test_evaluations_are_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    timeline = Timeline()
    timeline.add([held_out(0, 0.7), text(1), held_out(1, 0.4), text(2), held_out(2, 0.5)])
    found = timeline.summary(10.0, 0.0)
    assert found["held_out"]["first"] == {"step": 0, "loss": 0.7, "accuracy": 0.8, "margin": 0.1}
    assert (found["held_out"]["best"]["step"], found["held_out"]["last"]["step"]) == (1, 2)
    assert found["step"] == 2
    with caplog.at_level("INFO"):
        log_held_out(found)
    said = "held out, best evaluation step=1 loss=0.4 accuracy=0.8 margin=0.1 by=loss"
    assert said in caplog.text
    caplog.clear()
    without = Timeline()
    without.add([text(1)])
    found = without.summary(10.0, 0.0)
    assert found["held_out"] is None
    with caplog.at_level("INFO"):
        log_held_out(found)
    assert "held out" not in caplog.text


def test_energy_lost_steps_and_evaluations_are_summed_over_all_attempts() -> None:
    timeline = Timeline()
    assert timeline.summary(1.0, 0.0) == {}
    timeline.add([text(step) for step in (1, 2, 3)])
    assert timeline.summary(9.0, 0.0)["kwh"] is None
    row = Row(step=3, total=9, attempt=2, time=0.0, seconds=2.0, other_seconds=1.0, watts=1200.0)
    held_out = Evaluation(step=3, total=9, attempt=2, time=1.0, seconds=4.0, values={"loss": 0.7})
    timeline.add([metrics.line(row), evaluations.line(held_out), metrics.line(row)])
    found = timeline.summary(9.0, 0.0)
    assert (found["watts"], found["kwh"]) == (1200.0, 2 * 3 * 1200 / 3.6e6)
    assert (found["trained_seconds"], found["lost_seconds"]) == (6.0, 4.0)
    assert found["evaluation_seconds"] == 4.0

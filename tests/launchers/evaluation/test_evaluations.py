"""Evaluations in ``metrics.jsonl``: rows between those of steps, of the timeline that counts."""

import math
from pathlib import Path

import pytest

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation, Measure
from launchers.metrics import reader, writer
from launchers.metrics.rows import Row
from launchers.metrics.writer import Writer
from tests.launchers.recipes import plain


def one(step: int, loss: float | None = 0.5, attempt: int = 1, accuracy: float = 0.0) -> Evaluation:
    values = {"loss": loss, "rewards/accuracies": accuracy}
    return Evaluation(step=step, total=9, attempt=attempt, time=1.0, seconds=2.0, values=values)


def test_readers_of_steps_skip_evaluations_and_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    step = Row(step=1, total=9, attempt=1, time=0.0, seconds=1.0, values={"loss": 0.6})
    written: Writer[Row] = Writer(path, lambda row: row)
    for item in (one(0), step, one(1)):
        written.put(item)
    written.close()
    assert reader.read(path, Row) == [step]
    assert reader.read(path, Evaluation) == [one(0), one(1)]


def test_a_later_attempt_replaces_the_evaluations_of_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for each in (one(0), one(4), one(8), one(4, attempt=2)):
        writer.append(path, evaluations.line(each))
    assert [(e.step, e.attempt) for e in reader.read(path, Evaluation)] == [(0, 1), (4, 2)]
    assert reader.read(tmp_path / "none", Evaluation) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 1, "tot',
        "[]",
        '{"step":1.5,"total":9,"attempt":1,"time":1.0,"eval_seconds":2.0}',
        '{"step":1,"total":9,"attempt":1,"time":1.0,"eval_seconds":null}',
        f'{{"step":{10**400},"total":9,"attempt":1,"time":1.0,"eval_seconds":2.0}}',
    ],
)
def test_a_line_that_no_evaluation_leaves_is_skipped(text: str) -> None:
    assert reader.parse(text) is None


def test_a_loss_that_is_not_finite_is_null_and_never_the_best() -> None:
    lines = map(evaluations.line, (one(0, math.nan), one(4, 0.6)))
    found = reader.newest(lines, Evaluation)
    assert found[0].values["loss"] is None
    assert (best := Measure().best(found)) is not None and best.step == 4
    assert Measure().best(found[:1]) is None


def test_the_best_is_that_of_the_recipes_measure_and_the_later_of_equal_ones() -> None:
    found = [one(0, 0.7, accuracy=0.9), one(4, 0.5, accuracy=0.8), one(8, 0.5, accuracy=0.9)]
    steps = []
    accuracy = {"metric_for_best_model": "eval_rewards/accuracies"}
    for args in ({}, accuracy, {"greater_is_better": "true"}):
        best = Measure.of(plain(**args)).best(found)
        assert best is not None
        steps.append(best.step)
    assert steps == [8, 8, 0]
    chosen = Measure().best(found, among={0, 4})
    assert chosen is not None and chosen.step == 4


def test_a_summary_has_the_first_the_last_and_the_best() -> None:
    found = evaluations.summary([one(0, 0.7), one(4, 0.4), one(8, 0.5)], Measure())
    assert [found[name]["loss"] for name in ("first", "last", "best")] == [0.7, 0.5, 0.4]
    assert (found["by"], found["evaluations"], found["seconds"]) == ("loss", 3, 6.0)
    assert evaluations.summary([], Measure()) == {}

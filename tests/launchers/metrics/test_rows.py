"""Rows of ``metrics.jsonl``: written whole, read back as the timeline that training continued."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.metrics import reader, rows
from launchers.metrics import writer as metrics_file
from launchers.metrics.rows import Row
from launchers.metrics.writer import Writer


def row(step: int, attempt: int = 1, seconds: float = 2.0, **values: float) -> Row:
    return Row(step=step, total=9, attempt=attempt, time=100.0, seconds=seconds, values=values)


def test_a_row_reads_back_as_it_was_written() -> None:
    one = dataclasses.replace(row(3, loss=0.5), tokens=800, mfu=0.25, card="h200")
    assert reader.parse(rows.line(one)) == one
    document = json.loads(rows.line(one))
    assert (document["loss"], document["grad_norm"]) == (0.5, None)


def test_what_is_no_number_is_null() -> None:
    text = rows.line(dataclasses.replace(row(1, loss=math.nan), grad_norm=math.inf))
    assert json.loads(text)["loss"] is None
    assert json.loads(text)["grad_norm"] is None


NEVER = [("step", "3"), ("seconds", 0), ("seconds", math.nan), ("total", None)]
NEVER += [("data_seconds", []), ("tokens", 10**400)]


@pytest.mark.parametrize(("name", "value"), NEVER)
def test_a_row_that_no_step_can_leave_is_passed_over(name: str, value: object) -> None:
    document = json.loads(rows.line(row(3)))
    assert reader.parse(json.dumps(document)) is not None
    assert reader.parse(json.dumps(document | {name: value})) is None


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_after_restarts_each_step_has_its_newest_row(starts: list[int]) -> None:
    """Each attempt trains some steps on from a checkpoint that it resumes from."""
    lines: list[str] = []
    expected: dict[int, int] = {}
    for attempt, length in enumerate(starts, start=1):
        first = max(expected, default=0) // 2 + 1  # half of the steps were saved
        expected = {step: who for step, who in expected.items() if step < first}
        for step in range(first, first + length):
            lines.append(rows.line(row(step, attempt)))
            expected[step] = attempt
    assert {each.step: each.attempt for each in reader.newest(lines, Row)} == expected
    assert [each.step for each in reader.newest(lines, Row)] == sorted(expected)


def test_a_line_torn_by_a_kill_is_passed_over_and_does_not_harm_the_next(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "r" / "metrics.jsonl"
    metrics_file.append(path, rows.line(row(1)))
    with path.open("a") as handle:
        handle.write(rows.line(row(2))[:40])
    metrics_file.append(path, rows.line(row(2, attempt=2)))
    assert [(each.step, each.attempt) for each in reader.read(path, Row)] == [(1, 1), (2, 2)]
    assert len(path.read_text().splitlines()) == 3


def test_rows_are_written_in_the_order_of_the_steps_and_reported(tmp_path: Path) -> None:
    reported: list[int] = []
    writer = Writer(tmp_path / "metrics.jsonl", row, lambda each: reported.append(each.step))
    for step in (1, 2, 3):
        writer.put(step)
    writer.close()
    assert [each.step for each in reader.read(tmp_path / "metrics.jsonl", Row)] == [1, 2, 3]
    assert reported == [1, 2, 3]


def test_a_disk_that_fails_costs_its_rows_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "w").write_text("")  # no folder

    def finish(step: int) -> Row:
        if step == 4:
            (tmp_path / "w").unlink()
        return row(step)

    writer = Writer(tmp_path / "w" / "metrics.jsonl", finish)
    for step in (1, 2, 3, 4):
        writer.put(step)
    writer.close()
    assert [each.step for each in reader.read(tmp_path / "w" / "metrics.jsonl", Row)] == [4]
    assert caplog.text.count("metrics not written") == 1


def test_the_files_place_is_the_runs_home_or_the_trainers_output() -> None:
    own = metrics_file.path({"DPO_RUN_FOLDER": "/w/runs/r"}, "/o")
    assert own == Path("/w/runs/r/metrics.jsonl")
    assert metrics_file.path({}, "/o") == Path("/o/metrics.jsonl")

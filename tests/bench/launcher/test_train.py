"""Rows of each form, and what is said to be wrong with a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.inputs import row_forms
from tests.bench.launcher import train
from tests.bench.visit import command, lines

TRAINED: dict[str, Any] = {
    "expect": "",
    "exit": 0,
    "form": "ultrafeedback",
    "steps": 2,
    "rows_written": 600,
    "rows_cut": 12,
    "packing": {"rows_read": 600, "rows_kept": 588},
    "each_step": [[1, 1.0, {}, None], [2, 1.0, {}, None]],
    "readers": ["rows have a built-in reader: whole conversations"],
    "ends": [],
    "export": 10,
}
REFUSED: dict[str, Any] = {
    **TRAINED,
    "expect": "model-head-missing",
    "exit": 65,
    "each_step": [],
    "ends": [{"id": "model-head-missing"}],
}


def written(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    """Return the rows that a command line writes from ten pairs."""
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    pair = json.dumps({"messages": turns, "rejected_response": "b"})
    (tmp_path / "pairs").write_text(f"{pair}\n" * 10)
    given = ["t", "r", "--gpus", "1", "--profile", "f", *words]
    train.write_rows(tmp_path / "pairs", tmp_path / "rows", train.arguments(given))
    return [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]


def test_pairs_as_conversations_have_a_built_in_reader(tmp_path: Path) -> None:
    rows = written(tmp_path, "--rows", "ultrafeedback", "--cut", "2")
    form = row_forms.find(rows)
    assert form is not None and form.name.startswith("whole conversations")
    read = form.read(rows[0])
    assert read["messages"] == rows[0]["chosen"]
    assert read["rejected_messages"] == rows[0]["rejected"] != rows[0]["chosen"]
    assert [number for number, row in enumerate(rows) if row["rejected"] is None] == [4, 9]


@pytest.mark.parametrize("rows", ["sft", "kto"])
def test_rows_of_another_task_have_one_answer(tmp_path: Path, rows: str) -> None:
    answers = [row["messages"][1]["content"] for row in written(tmp_path, "--rows", rows)]
    assert answers[:2] == (["a", "b"] if rows == "kto" else ["a", "a"])


def test_rows_without_a_rejected_answer_need_a_form_with_one() -> None:
    with pytest.raises(SystemExit):
        train.arguments(["t", "r", "--gpus", "1", "--profile", "f", "--rows", "sft", "--cut", "1"])


def test_the_model_of_the_refused_line_lacks_the_weight() -> None:
    words = lines("1gpu")["headless"]
    made = train.launch_of(train.arguments(command("1gpu", "headless", "t", "r", words)))
    assert made.model.name == "model-tiny-lm_head.weight"


@pytest.mark.parametrize("record", [TRAINED, REFUSED])
def test_a_run_as_wanted_has_no_complaint(record: dict[str, Any]) -> None:
    assert train.complaints(record) == []


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({**TRAINED, "exit": 75}, "it ended with 75"),
        ({**TRAINED, "each_step": TRAINED["each_step"][:1]}, "it trained the steps [1]"),
        ({**TRAINED, "packing": {"rows_read": 600, "rows_kept": 600}}, "rows kept"),
        ({**TRAINED, "readers": []}, "built-in readers: []"),
        ({**REFUSED, "each_step": [[1, 1.0, {}, None]]}, "it trained the steps [1]"),
        ({**REFUSED, "ends": [{"id": "model-index"}]}, "the cause is ['model-index']"),
    ],
)
def test_what_is_wrong_is_named(record: dict[str, Any], complaint: str) -> None:
    (said,) = train.complaints(record)
    assert said.startswith(complaint)

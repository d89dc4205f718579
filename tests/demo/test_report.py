"""The tables show the figures of the run."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from launchers.metrics.trainer_log import Step
from scripts.demo.report import Report, Score, phase_table, read_phases, table

SCORE = Score(
    pairs=800,
    accuracy_before=0.5,
    accuracy_after=0.975,
    margin_before=0.0,
    margin_after=4.25,
    tokens_per_pair=100.0,
)


def step(number: int, loss: float) -> Step:
    row = {
        "loss": loss,
        "rewards/margins": 1.0,
        "rewards/accuracies": 0.5,
        "train_speed(s/it)": 0.5,
    }
    return Step(number=number, total=100, row=row)


REPORT = Report(
    steps=[step(1, 0.6931), step(100, 0.25)],
    score=SCORE,
    pairs_per_step=16,
    phases={"clone": (1.5, "up to date"), "convert": (0.0, "skipped: SKIP_CONVERT=1")},
)


def test_tokens_a_second_count_all_nodes_pairs() -> None:
    assert REPORT.tokens_per_second == pytest.approx(16 * 100 / 0.5)


def test_the_table_shows_before_and_after_and_every_phase() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table(REPORT), phase_table(REPORT))
    text = captured.get()
    for figure in ("0.6931", "0.2500", "0.500", "0.975", "4.25", "3,200", "100 of 100", "1.5 "):
        assert figure in text
    assert "up to date" in text
    assert "skipped: SKIP_CONVERT=1" in text


def test_the_phases_are_the_launchers_stages_in_their_order(tmp_path: Path) -> None:
    stages = {
        "train": {"state": "up to date", "seconds": 0.25, "why": "up to date"},
        "convert": {"state": "skipped", "seconds": 0.0, "why": "SKIP_CONVERT=1"},
        "clone": {"state": "done", "seconds": 2.0, "why": ""},
    }
    (tmp_path / "progress.json").write_text(json.dumps({"state": "succeeded", "stages": stages}))
    assert list(read_phases(tmp_path / "progress.json").items()) == [
        ("clone", (2.0, "done")),
        ("convert", (0.0, "skipped: SKIP_CONVERT=1")),
        ("train", (0.25, "up to date")),
    ]

"""The tables of values/README.md and the plot hold what is predicted and measured now."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.dev.figures import measured, plot, table
from scripts.dev.figures.__main__ import README, readme
from scripts.dev.figures.markdown import filled
from scripts.dev.figures.predicted import BASE, HARDWARE, Predicted, predictions
from scripts.helm import template
from scripts.plan.submission import read_submission
from scripts.plan.units import GIB
from scripts.problem import Problem

ROWS = predictions()
FIGURES: dict[str, Any] = {
    "steps": 30,
    "world": 4,
    "profile": {"files": ["values/a100-2node.yaml", "values/hardware/h200-4.yaml"]},
    "flags": {"global_batch_size": "32", "micro_batch_size": "1"},
    "seconds": {"median": 10.25, "p95": 11.5},
    "tokens_per_second_per_gpu": {"median": 7504.4, "mad": 40.0},
    "mfu": 0.2123,
    "reserved_gib": 121.44,
    "load_balancing_loss": 1.0123,
    "first_loss": {"first": 0.69314718, "ok": True},
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    slow = {**FIGURES, "tokens_per_second_per_gpu": {"median": 1500.0, "mad": 9.0}}
    slow["profile"] = {"files": ["tests/gpu/baselines/seed.yaml"]}
    runs = {"tuned": FIGURES, "seed": slow, "cut": {"skipped": "no time left"}}
    record = {"card": "h200", "layers": 48, "against": "seed", "runs": runs}
    (tmp_path / "bench-ab.json").write_text(json.dumps(record))
    few = {"card": "h200", "layers": 8, "against": None, "runs": {"tuned": FIGURES}}
    (tmp_path / "bench-few.json").write_text(json.dumps(few))
    return tmp_path


def row_of(card: str, gpus: int) -> Predicted:
    (row,) = [row for row in ROWS if (row.card, row.gpus) == (card, gpus)]
    return row


def test_the_readme_holds_the_figures_of_now() -> None:
    text = README.read_text(encoding="utf-8")
    assert readme(text, ROWS, measured.runs()) == text, "run `make figures`"


def test_every_profile_is_in_the_table_and_each_card_but_one_has_all_counts() -> None:
    assert {row.file for row in ROWS} == {BASE, *HARDWARE.glob("*.yaml")}
    counts = {card: [row.gpus for row in ROWS if row.card == card] for card in ("h200", "b200")}
    assert counts == {"h200": [1, 2, 4, 8, 16], "b200": [1, 2, 4, 8, 16]}
    for card in ("a100-80g", "a800-80g", "h100-80g"):
        assert [row.gpus for row in ROWS if row.card == card] == [2, 4, 8, 16]


@pytest.mark.parametrize("file", [BASE, *sorted(HARDWARE.glob("*.yaml"))], ids=lambda f: f.stem)
def test_a_pods_memory_leaves_a_tenth_of_it_beside_what_is_predicted(file: Path) -> None:
    row = next(row for row in ROWS if row.file == file)
    limit = read_submission(template("figures", row.files)).pod.memory
    assert row.plan.memory is not None and limit is not None
    assert row.plan.memory.host <= 0.9 * limit / GIB


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.card}-{row.gpus}")
def test_the_phases_of_a_step_sum_up_to_it(row: Predicted) -> None:
    assert row.plan.speed is not None
    seconds = plot.phases(row.plan.speed)
    assert sum(seconds.values()) == pytest.approx(row.plan.speed.step_seconds)
    assert seconds.keys() == plot.COLOURS.keys()


def test_a_layer_of_fewer_experts_is_not_the_whole_model(tmp_path: Path) -> None:
    record = {"card": "h200", "layers": 48, "experts": 32, "runs": {"tuned": FIGURES}}
    (tmp_path / "bench-part.json").write_text(json.dumps(record))
    runs = measured.runs(tmp_path)
    assert measured.best(runs, card="h200", gpus=4, file=HARDWARE / "h200-4.yaml") is None
    assert "| 48, 32 experts |" in table.ran(runs)


def test_a_measured_run_stands_beside_its_profile(results: Path) -> None:
    runs = measured.runs(results)
    assert [(run.name, run.result) for run in runs] == [
        ("tuned", "bench-ab.json"),
        ("seed", "bench-ab.json"),
        ("tuned", "bench-few.json"),
    ]
    lines = table.predicted(ROWS, runs).splitlines()
    (line,) = [line for line in lines if "7,500 with 32 packs, 121.4 GiB" in line]
    assert "`hardware/h200-4.yaml`" in line
    first, second, third = table.ran(runs).splitlines()[2:]
    assert "| 5.00 x |" in first and "| 0.693147 |" in first and "| 10.25, 11.50 |" in first
    assert second.startswith("| seed |") and second.endswith("|  |")
    assert "| 8 | 4 h200 |" in third


def test_runs_of_fewer_layers_are_not_the_profile(results: Path) -> None:
    (results / "bench-ab.json").unlink()
    row = row_of("h200", 4)
    found = measured.best(measured.runs(results), card="h200", gpus=4, file=row.file)
    assert found is None


def test_the_plot_names_every_profile_and_phase(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    plot.draw(ROWS, measured.runs(results), path)
    text = path.read_text(encoding="utf-8")
    for row in ROWS:
        assert f">{row.gpus} x {row.card}" in text
    for word in (*plot.COLOURS, "measured"):
        assert f">{word}<" in text
    again = tmp_path / "again.svg"
    plot.draw(ROWS, measured.runs(results), again)
    assert again.read_bytes() == path.read_bytes()


def test_a_readme_without_its_markers_is_told() -> None:
    with pytest.raises(Problem, match="<!-- predicted -->"):
        filled("no markers", {"predicted": "x"})

"""Predictions of visits, and their table in values/FIGURES.md."""

import pytest

from scripts.dev import results
from scripts.dev.figures import markdown
from tests.bench import forecast


def test_the_readme_has_the_forecast_of_now() -> None:
    text = forecast.PAGE.read_text(encoding="utf-8")
    found = markdown.filled(text, {"forecast": forecast.block()})
    assert found == text, "python3 -m tests.bench forecast --write"


def test_a_line_is_compared_with_its_last_profile_and_restarts_are_left_out() -> None:
    rows = {(row.line, row.run): row for row in forecast.forecasts("8gpu")}
    tuned, seed = rows["gbs4", "tuned"], rows["gbs4", "seed"]
    rates = [row.speed.tokens_per_second_per_gpu for row in (tuned, seed)]
    assert tuned.against == rates[0] / rates[1] and seed.against is None
    assert "restart" not in {line for line, _ in rows}
    assert rows["scaling-2", "tuned-2"].gpus == 2 and rows["scaling-2", "tuned-2"].layers == 8


def test_the_measured_value_is_in_the_same_row(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {
        "tuned": {"steps": 3, "tokens_per_second_per_gpu": {"median": 7654.3}},
        "seed": {"skipped": "no time left"},
    }
    found = {"bench-8gpu-gbs4": {"runs": runs}}
    monkeypatch.setattr(results, "read", lambda: found)
    lines = forecast.table(forecast.forecasts("8gpu")).splitlines()
    [tuned] = [line for line in lines if line.startswith("| 8gpu | gbs4 | tuned |")]
    [seed] = [line for line in lines if line.startswith("| 8gpu | gbs4 | seed |")]
    assert tuned.endswith("| 7,654 |") and seed.endswith("|  |  |")

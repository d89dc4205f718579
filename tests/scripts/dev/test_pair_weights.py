"""The committed comparison of weights of pairs is what its runs give, over enough seeds."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from scripts.dev import pair_weights
from scripts.dev.pair_weights import Settings, compared, sign_flip, spread
from scripts.helm import ROOT

FILE = ROOT / "scripts" / "dev" / "pair_weights.json"
SEEDS = 5


@pytest.fixture
def result() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_the_comparison_is_that_of_its_runs(result: Any) -> None:
    assert result["compared"] == compared(result["runs"], Settings())
    assert json.loads(json.dumps(asdict(Settings()))) == result["settings"]


def test_both_weights_have_run_with_the_same_seeds(result: Any) -> None:
    seeds = {
        weights: {
            run["seed"]
            for run in result["runs"]
            if (run["weights"], run["rpo_alpha"]) == (weights, 0.0)
        }
        for weights in pair_weights.WEIGHTS
    }
    assert seeds["equal"] == seeds["pack"] and len(seeds["equal"]) >= SEEDS


def test_equal_weights_are_the_default_because_they_lose_nothing(result: Any) -> None:
    last = [row for row in result["compared"] if row["step"] == max(Settings().scored_at)]
    of = {row["figure"]: row for row in last if row["rpo_alpha"] == 0.0}
    assert of["loss"]["equal_minus_pack"] < 0
    for figure in ("accuracy", "reward_accuracy"):
        assert of[figure]["equal_minus_pack"] > -2 * of[figure]["standard_error"]


def test_a_sign_flip_test_of_one_direction_has_the_smallest_p_of_its_size() -> None:
    assert sign_flip([0.1] * 5) == 2 / 2**5
    assert sign_flip([0.1, -0.1]) == 1.0


def test_a_spread_is_relative_to_equal_weights() -> None:
    seen = spread([[0], [1, 2, 3]], [[1, 1]] * 4)
    assert seen["weight_max_over_min"] == 3
    assert seen["weight_cv"] == pytest.approx(3**0.5 / 3, abs=1e-4)

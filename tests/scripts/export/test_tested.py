from typing import Any

import pytest

from scripts.export import tested

COMPARED = {
    **{"pairs": 64, "difference": 2.8e-7, "bound": 1e-4},
    **{"base_accuracy": 0.453, "tuned_accuracy": 0.969, "margin": 14.1},
}


HIGHER = "log-ratio of chosen over rejected 14 nats higher"


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        ({}, []),
        ({"problems": ["a layer is missing"]}, [("Export", "differs", "a layer is missing")]),
        ({"not_compared": "SFT"}, [("Export", "not compared", "SFT")]),
        (
            {"problems": [], "compared": COMPARED},
            [
                ("Export", "64 pairs", "2.8e-07 nats a token from the trainer's, bound 0.0001"),
                ("Chosen likelier", "45 % → 97 %", f"base → tuned; {HIGHER}"),
            ],
        ),
    ],
)
def test_the_key_figures_say_what_the_test_found(
    found: dict[str, Any], rows: list[tuple[str, ...]]
) -> None:
    assert list(tested.rows(found)) == rows


def test_scores_and_a_failure_of_benchmarks_are_rows() -> None:
    score = {"metric": "mean_acc", "score": 0.8125, "samples": 100}
    found = {"scores": {"gsm8k": score}, "problem": "evalscope ended with 1"}
    assert list(tested.scores(found)) == [
        ("gsm8k", "0.812", "mean_acc; 100 samples"),
        ("Benchmarks", "failed", "evalscope ended with 1"),
    ]

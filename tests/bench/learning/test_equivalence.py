"""Two one-sided tests: the interval and its level."""

import random

import pytest

from tests.bench.learning.equivalence import equivalence


def test_the_interval_is_the_mean_and_the_quantile_of_its_error() -> None:
    found = equivalence([1.0, 2.0, 3.0], 10.0)
    half = 2.91999 * 1.0 / 3**0.5
    assert found["low"] == pytest.approx(2 - half, abs=1e-4)
    assert found["high"] == pytest.approx(2 + half, abs=1e-4)


def test_a_mean_within_the_bound_is_not_enough() -> None:
    spread = [0.09, -0.09, 0.08, -0.08, 0.05]
    assert not equivalence(spread, 0.05)["equivalent"]
    assert equivalence(spread, 0.2)["equivalent"]
    assert not equivalence([0.3, 0.3001, 0.2999], 0.2)["equivalent"]


@pytest.mark.parametrize("count", [1, 11])
def test_one_seed_is_no_evidence_and_eleven_have_no_quantile(count: int) -> None:
    with pytest.raises(ValueError, match="2 to 10 seeds"):
        equivalence([0.0] * count, 1.0)


def test_a_difference_of_the_bound_passes_as_seldom_as_alpha() -> None:
    chance = random.Random(5)
    draws = [[chance.gauss(0.1, 0.02) for _ in range(5)] for _ in range(4000)]
    passed = [equivalence(draw, 0.1)["equivalent"] for draw in draws]
    assert passed.count(True) / len(draws) == pytest.approx(0.05, abs=0.015)

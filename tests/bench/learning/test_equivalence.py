"""Two one-sided tests: quantiles of tables, the interval and the power."""

import random
import statistics

import pytest

from tests.bench.learning.equivalence import ALPHA, equivalence, power, quantile


@pytest.mark.parametrize(
    ("share", "freedom", "table"),
    [
        (0.95, 1, 6.314),
        (0.95, 2, 2.920),
        (0.95, 3, 2.353),
        (0.95, 4, 2.132),
        (0.95, 9, 1.833),
        (0.975, 4, 2.776),
        (0.95, 30, 1.697),
    ],
)
def test_quantiles_are_those_of_students_table(share: float, freedom: int, table: float) -> None:
    assert quantile(share, freedom) == pytest.approx(table, abs=6e-4)


def test_the_interval_is_the_mean_and_the_quantile_of_its_error() -> None:
    found = equivalence([1.0, 2.0, 3.0], 10.0)
    half = 2.91999 * 1.0 / 3**0.5
    assert found.low == pytest.approx(2 - half, abs=1e-4)
    assert found.high == pytest.approx(2 + half, abs=1e-4)


def test_a_mean_within_the_bound_is_not_enough() -> None:
    spread = [0.09, -0.09, 0.08, -0.08, 0.05]
    assert not equivalence(spread, 0.05).equivalent
    assert equivalence(spread, 0.2).equivalent
    assert not equivalence([0.3, 0.3001, 0.2999], 0.2).equivalent


def test_one_seed_is_no_evidence() -> None:
    with pytest.raises(ValueError, match="2 seeds"):
        equivalence([0.0], 1.0)


def passes(draw: list[float], limit: float, bound: float) -> bool:
    return abs(statistics.mean(draw)) + limit * statistics.stdev(draw) < bound


@pytest.mark.parametrize(("count", "bound"), [(3, 0.1), (5, 0.1), (5, 0.06)])
def test_the_power_is_the_share_of_simulated_experiments_that_pass(
    count: int, bound: float
) -> None:
    chance, deviation = random.Random(3), 0.04
    draws = [[chance.gauss(0, deviation) for _ in range(count)] for _ in range(4000)]
    limit = quantile(1 - ALPHA, count - 1) / count**0.5
    passed = sum(passes(draw, limit, bound) for draw in draws)
    assert power(deviation, count, bound) == pytest.approx(passed / len(draws), abs=0.03)


def test_a_difference_of_the_bound_passes_as_seldom_as_alpha() -> None:
    chance = random.Random(5)
    limit = quantile(1 - ALPHA, 4) / 5**0.5
    draws = [[chance.gauss(0.1, 0.02) for _ in range(5)] for _ in range(4000)]
    passed = sum(passes(draw, limit, 0.1) for draw in draws)
    assert passed / len(draws) == pytest.approx(ALPHA, abs=0.015)

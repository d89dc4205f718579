"""Equivalence of paired differences: two one-sided t tests and their power. Pure.

Two trainings never agree to the last digit, and "no significant difference" would only say that
there were few seeds. So the hypothesis to reject is that they differ by a bound or more (Schuirmann
1987, "A comparison of the two one-sided tests procedure and the power approach"): at 5 % it is
rejected exactly where the 90 % confidence interval of the mean difference is within the bound.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

ALPHA = 0.05
"""Probability of each one-sided test to call a difference of the bound equivalent."""
FEWEST = 2
"""Differences that have a standard deviation."""
CELLS = 400
"""Intervals of the numerical integrals."""


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    count: int
    mean: float
    deviation: float
    low: float
    high: float
    """90 % confidence interval of the mean difference."""
    bound: float
    equivalent: bool
    power: float
    """Probability of ``equivalent`` if the true difference is 0 and this is the true deviation."""

    def record(self) -> dict[str, float | bool]:
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in asdict(self).items()}


def equivalence(differences: Sequence[float], bound: float) -> Equivalence:
    """Test whether a mean difference is within ``-bound`` and ``bound``.

    >>> equivalence([0.01, -0.01, 0.0, 0.01, -0.01], 0.05).equivalent
    True
    >>> equivalence([0.01, -0.01, 0.0, 0.01, -0.01], 0.005).equivalent
    False

    Raises:
        ValueError: there are fewer than two differences.
    """
    count = len(differences)
    if count < FEWEST:
        raise ValueError(f"{count} differences have no spread; run at least {FEWEST} seeds")
    mean, deviation = statistics.mean(differences), statistics.stdev(differences)
    half = quantile(1 - ALPHA, count - 1) * deviation / math.sqrt(count)
    return Equivalence(
        count=count,
        mean=mean,
        deviation=deviation,
        low=mean - half,
        high=mean + half,
        bound=bound,
        equivalent=-bound < mean - half and mean + half < bound,
        power=power(deviation, count, bound),
    )


def quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t for ``share`` of at least 1/2.

    >>> round(quantile(0.95, 2), 3), round(quantile(0.95, 4), 3)
    (2.92, 2.132)
    """
    low, high = 0.0, 1e4
    while high - low > 1e-9 * (1 + low):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 2 * share - 1 else (low, middle)
    return low


def _within(t: float, freedom: int) -> float:
    """Return P(|T| < t) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom, 2):
        term *= (step - 1) / step * cosine**2
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def power(deviation: float, count: int, bound: float) -> float:
    """Return the probability to find equivalence where there is no difference.

    The mean of ``count`` differences is normal, independent of their standard deviation, whose
    square is chi-square distributed: integrate over the latter.

    >>> power(0.0, 5, 0.1), round(power(0.1, 5, 1.0), 3), round(power(0.1, 5, 0.01), 3)
    (1.0, 1.0, 0.0)
    """
    if deviation == 0:
        return 1.0
    freedom, error = count - 1, deviation / math.sqrt(count)
    limit, unit = quantile(1 - ALPHA, freedom), statistics.NormalDist()
    top = 6.0  # six times the true standard deviation: beyond it there is nothing to integrate
    width, total = top / CELLS, 0.0
    scale = 2 * (freedom / 2) ** (freedom / 2) / math.gamma(freedom / 2)
    for cell in range(CELLS):
        ratio = (cell + 0.5) * width  # observed over true standard deviation
        density = scale * ratio ** (freedom - 1) * math.exp(-freedom * ratio**2 / 2)
        room = bound / error - limit * ratio
        total += max(0.0, 2 * unit.cdf(room) - 1) * density * width
    return min(1.0, total)

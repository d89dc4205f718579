"""Equivalence of paired differences by two one-sided t tests. Pure.

Two trainings never agree to the last digit, and "no significant difference" would only say that
there were few seeds. So the hypothesis to reject is that they differ by a bound or more (Schuirmann
1987, "A comparison of the two one-sided tests procedure and the power approach"): at 5 % it is
rejected exactly where the 90 % confidence interval of the mean difference is within the bound.
"""

import math
import statistics
from collections.abc import Sequence

FEWEST = 2
"""Differences that have a standard deviation."""
QUANTILES = (6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331)
"""The 95 % quantile of Student's t, from one degree of freedom on."""
MOST = len(QUANTILES) + 1
"""Differences for which there is a quantile."""


def equivalence(differences: Sequence[float], bound: float) -> dict[str, float | bool]:
    """Test whether a mean difference is within ``-bound`` and ``bound``.

    >>> equivalence([0.01, -0.01, 0.0, 0.01, -0.01], 0.05)["equivalent"]
    True
    >>> equivalence([0.01, -0.01, 0.0, 0.01, -0.01], 0.005)["equivalent"]
    False

    Returns:
        ``low`` and ``high`` are the 90 % confidence interval of the mean difference.
    """
    count = len(differences)
    if not FEWEST <= count <= MOST:
        raise ValueError(f"{count} differences; run {FEWEST} to {MOST} seeds")
    mean, deviation = statistics.mean(differences), statistics.stdev(differences)
    half = QUANTILES[count - 2] * deviation / math.sqrt(count)
    low, high = mean - half, mean + half
    found = {"mean": mean, "deviation": deviation, "low": low, "high": high, "bound": bound}
    rounded = {name: round(value, 6) for name, value in found.items()}
    return {"count": count, **rounded, "equivalent": -bound < low and high < bound}

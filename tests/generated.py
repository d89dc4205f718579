"""Generated cases in parts, which run side by side: a failure names its part and its seed."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

PART = 250
"""Cases of one part."""

Test = Callable[..., Any]


def parts(count: int) -> range:
    """Return the numbers of the parts of so many cases."""
    return range(max(1, count // PART))


def drawn(part: int, first: int, count: int) -> Callable[[Test], Test]:
    """Draw the cases of a part, the same ones each time.

    ``first`` is the seed of the first part, ``count`` the cases of all.
    """
    limited = settings(
        max_examples=min(PART, count),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(first + part)(limited(test))

"""Numbers as a person reads them, and the ticks of axes."""

import math

LARGEST = 1e300
"""Larger numbers count as not finite: the range of two of them may have none. A float32 ends at
3.4e38."""


def plain(value: float | None) -> str:
    """Return a number with four significant digits and thousands separated.

    >>> plain(0.123456), plain(12345.6), plain(5e-06), plain(3.0), plain(None), plain(0)
    ('0.1235', '12,346', '5e-06', '3', '–', '0')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def count(value: float) -> str:
    """Return a large number in thousands (k), millions (M) or billions (B).

    >>> count(557_800), count(30_532_122_624), count(128)
    ('557.8 k', '30.53 B', '128')
    """
    for factor, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:g}"


def percent(value: float | None) -> str:
    """Return a fraction in percent.

    >>> percent(0.3745), percent(None)
    ('37 %', '–')
    """
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.0f} %"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers within a range, ascending.

    >>> ticks(0, 1), ticks(0, 97, 4), ticks(3, 3)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 20.0, 40.0, 60.0, 80.0], [3.0])
    """
    if not high > low:
        return [float(low)]
    power = 10.0 ** math.floor(math.log10((high - low) / count))
    sizes = [step * power for step in (1, 2, 5, 10)]
    size = min(sizes, key=lambda each: abs(math.log((high - low) / each / count)))
    first, last = math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9)
    return [float(f"{at * size:.12g}") for at in range(first, last + 1)]


def powers(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: powers of ten, with 2 and 5 over few decades.

    >>> powers(0.05, 2), powers(1, 1e6)
    ([0.05, 0.1, 0.2, 0.5, 1.0, 2.0], [1.0, 100.0, 10000.0, 1000000.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 4 else (1,)
    every = math.ceil(len(decades) / 5) if len(factors) == 1 else 1
    found = (factor * 10.0**power for power in decades[::every] for factor in factors)
    near = 1 + 1e-9
    return [float(f"{tick:.12g}") for tick in found if low / near <= tick <= high * near]


def short(value: float) -> str:
    """Return the label of a tick.

    >>> short(12000.0), short(0.2), short(2.0), short(1.5e6), short(5e-06), short(2e243)
    ('12k', '0.2', '2', '1.5M', '5e-6', '2e243')
    """
    if abs(value) >= 1e12:
        return f"{value:.3g}".replace("e+", "e")
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")

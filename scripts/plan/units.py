"""Quantities of Kubernetes as bytes, and bytes as a person reads them."""

from __future__ import annotations

import re

_FACTORS = {
    **{"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18},
    **{f"{unit}i": 1024.0 ** (power + 1) for power, unit in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)([A-Za-z]*)")
GIB = 2**30


def parse(text: str) -> float:
    """A quantity as a plain number: bytes, cores or devices.

    The forms are those of Kubernetes (apimachinery ``pkg/api/resource/quantity.go``).

    >>> parse("491520Mi") / 2**30, parse("500m"), parse("2e3"), parse("8")
    (480.0, 0.5, 2000.0, 8.0)
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _FACTORS:
        raise ValueError(f"{text!r} is no quantity of Kubernetes")
    return float(match[1]) * _FACTORS[match[2]]


def bytes_text(count: float) -> str:
    """Bytes in decimal units, as storage is sold.

    >>> bytes_text(427e9), bytes_text(1.46e12), bytes_text(4096)
    ('427 GB', '1.5 TB', '4.1 KB')
    """
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if count >= factor:
            number = count / factor
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count:.0f} B"


def time_text(seconds: float) -> str:
    """Seconds in the largest unit that fits.

    >>> time_text(4.25), time_text(95), time_text(2400), time_text(30000), time_text(9e5)
    ('4.2 s', '95 s', '40 min', '8.3 h', '10.4 days')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    for factor, unit, limit in ((1, "s", 120), (60, "min", 7200), (3600, "h", 172800)):
        if seconds < limit:
            number = seconds / factor
            return f"{number:.1f} {unit}" if factor == 3600 else f"{number:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"

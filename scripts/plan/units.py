"""Bytes and seconds in the units that a person reads."""


def bytes_text(count: float) -> str:
    """Return bytes in decimal units, as storage is sold.

    >>> bytes_text(427e9), bytes_text(1.46e12), bytes_text(4096)
    ('427 GB', '1.5 TB', '4.1 KB')
    """
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if count >= factor:
            number = count / factor
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count:.0f} B"


def time_text(seconds: float) -> str:
    """Return seconds in the largest unit that fits.

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

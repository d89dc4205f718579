"""Numbers in the text of a flag's value."""

from __future__ import annotations

import re

_SIZE = re.compile(r"[1-9][0-9]{0,5}")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[-+]?([0-9]{1,30}[.]?[0-9]{0,30}|[.][0-9]{1,30})([eE][-+]?[0-9]{1,2})?")


def is_size(text: str) -> bool:
    """Return whether a text is a whole number from 1 to 999999, without signs and zeros."""
    return _SIZE.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number."""
    return _WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Return whether a text is a number.

    >>> [t for t in ("5e-6", "1.", ".5", "nan", "1e999", "") if is_number(t)]
    ['5e-6', '1.', '.5']
    """
    return _NUMBER.fullmatch(text) is not None

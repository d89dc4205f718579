"""Read JSON that a program wrote; numbers that are not finite, which JSON does not have, are null.

Python writes and reads NaN and Infinity, and reads 1e999 as infinity; none of them can be printed
again as JSON, compared, or shown.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

NOT_FINITE = "numbers that are not finite are left out"
"""Note about a file that had some."""


def parse(text: str) -> tuple[Any, int]:
    """Return the document, and how many of its numbers were not finite.

    >>> parse('{"loss": NaN, "eta": [1e999, 2.5], "n": 3}')
    ({'loss': None, 'eta': [None, 2.5], 'n': 3}, 2)

    Raises:
        ValueError: it is not JSON.
    """
    left_out = 0

    def finite(word: str) -> float | int | None:
        nonlocal left_out
        value = float(word)
        if math.isfinite(value):
            return int(word) if word.lstrip("-").isdecimal() else value
        left_out += 1
        return None

    return json.loads(text, parse_constant=finite, parse_float=finite, parse_int=finite), left_out


def read_object(text: str | None) -> tuple[dict[str, Any] | None, int]:
    """Return the object of a text, None if it is torn or something else, and as ``parse`` does.

    >>> read_object('{"step": 3}'), read_object("[3]"), read_object(None)
    (({'step': 3}, 0), (None, 0), (None, 0))
    """
    try:
        found, left_out = parse(text or "")
    except (ValueError, RecursionError):
        return None, 0
    return (found, left_out) if isinstance(found, dict) else (None, 0)


def part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object inside a document; empty if it is missing or not an object.

    >>> part({"gang": {"nodes": 2}, "step": 3}, "gang"), part({"step": 3}, "step")
    ({'nodes': 2}, {})
    """
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}

"""JSON maps that do not stand one on each line, where Arrow reads them for ``datasets``.

``packaged_modules/json/json.py`` (4.8.4) hands Arrow 10 MiB and the rest of the line at a time.
Arrow divides them into parts at ends of lines, and in a part maps may stand anyhow; one that
continues behind the end of its part ends the run. So does a column of two types: ``datasets`` would
write such a column as text line by line, and these lines are no JSON.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

PARTS = 32
"""``block_size`` is this part of ``chunksize``; a text of more than eight parts is one."""
_SPACE = re.compile(r"[ \t\r\n]*")


def read(text: bytes, block: int) -> tuple[list[dict[str, Any]], int] | None:
    r"""Return the rows of a text, and how many of them its first block has; None if Arrow fails.

    Args:
        text: the whole file.
        block: ``chunksize`` of ``datasets``, in bytes.

    >>> read(b'{"a":\n1}{"a": 2}', 9999)
    ([{'a': 1}, {'a': 2}], 2)
    >>> read(b'{"a": 1}\n{"a": "x"} {}', 9999) is None
    True
    """
    rows, first, begin, types = list[dict[str, Any]](), 0, 0, dict[str, type]()
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        while begin < len(text):
            end = text.find(b"\n", begin + block) + 1 or len(text)
            for part in _parts(text[begin:end], block // PARTS):
                rows += _maps(part.decode(), types)
            first, begin = first or len(rows), end
    except (ValueError, RecursionError):
        return None
    return rows, first


def _parts(text: bytes, size: int) -> Iterator[bytes]:
    """Yield the parts that Arrow parses, each up to the last line that ends in its block."""
    size = len(text) if len(text) // 8 > size else size
    while (cuts := _cuts(text, size)) is None:  # a line longer than two blocks
        size *= 2
    yield from (text[a:b] for a, b in pairwise([0, *cuts, len(text)]))


def _cuts(text: bytes, size: int) -> list[int] | None:
    found, is_open = list[int](), False
    for begin in range(0, len(text) - size, size):
        at = max(text.rfind(end, begin, begin + size) for end in (b"\n", b"\r"))
        if at < 0 and is_open:
            return None
        found += [at + 1] if at >= 0 else []
        is_open = at + 1 != begin + size
    return found


def _maps(text: str, types: dict[str, type]) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(object_pairs_hook=once, parse_float=double)
    at, has_halves = _end(text, 0), "\\ud" in text.lower()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        if not isinstance(value, dict):
            raise ValueError("not a map")
        _refuse_two_types(types, value, "")
        if has_halves:  # of a surrogate pair, which Arrow does not take for text
            json.dumps(value, ensure_ascii=False).encode()
        at = _end(text, at)
        yield value


def _end(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _refuse_two_types(types: dict[str, type], value: Any, name: str) -> None:
    kind = float if type(value) is int else type(value)
    if value is not None and types.setdefault(name, kind) is not kind:
        raise ValueError(f"{name} has two types")
    items = [("", each) for each in value] if isinstance(value, list) else []
    for key, each in value.items() if isinstance(value, dict) else items:
        _refuse_two_types(types, each, f"{name}.{key}")


def double(text: str) -> float:
    """Return a number; Arrow refuses one that 64 bits do not hold."""
    if math.isinf(found := float(text)):
        raise ValueError(f"the number {text[:20]} is too large for 64 bits")
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a map; Arrow refuses a key that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return found

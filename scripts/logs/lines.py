"""Cut blocks of output into lines; filter and prefix them. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from launchers.logs import printable
from scripts.problem import WrongUse
from scripts.terminal import SCHEMA

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is printed in parts: a progress bar may never end one."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """Format of the lines of one rank."""

    rank: int
    width: int = 1
    """Digits of the highest rank."""
    pattern: re.Pattern[str] | None = None
    """Only lines that contain it."""
    as_data: bool = False
    """Each line as a JSON document of one line."""

    def apply(self, lines: Iterable[str]) -> str:
        r"""Return the lines that match, each with its rank.

        >>> Format(rank=3, width=2, pattern=re.compile("loss")).apply(["loss 1", "x"])
        'rank  3 | loss 1\n'
        >>> Format(rank=3, as_data=True).apply(["a b"])
        '{"schema": 1, "rank": 3, "line": "a b"}\n'
        """
        found = lines if self.pattern is None else filter(self.pattern.search, lines)
        if self.as_data:
            begin = f'{{"schema": {SCHEMA}, "rank": {self.rank}, "line": '
            return "".join(f"{begin}{json.dumps(line)}}}\n" for line in found)
        prefix = f"rank {self.rank:>{self.width}} | "
        # a progress bar returns to the begin of its line
        shown = (part for line in found for part in line.split("\r") if part or part == line)
        return "".join(f"{prefix}{printable(part)}\n" for part in shown)


def compile_pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the pattern of `--grep`.

    Raises:
        WrongUse: it is not a regular expression.
    """
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise WrongUse(f"--grep {text!r} is not a regular expression: {error}") from None


def batches(blocks: Iterable[bytes]) -> Iterator[list[str]]:
    r"""Yield the whole lines of each block; a line that no newline ends at the end.

    An empty block, which opens a log that is followed, yields no lines.

    >>> list(batches([b"a\nb", b"c\n", b"d"]))
    [['a'], ['bc'], ['d']]
    """
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            whole, rest = [*whole, rest], b""
        if whole or not block:
            yield [line.decode(errors="replace").rstrip("\r") for line in whole]
    if rest:
        yield [rest.decode(errors="replace")]

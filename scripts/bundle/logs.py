"""Shorten logs, and remove rows of the data from them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from launchers.state import files

HEAD, TAIL = 64 * 1024, 256 * 1024
"""Bytes of the begin and of the end of a long file that are kept."""
LONGEST = 2000
"""Characters of a line; a longer one is cut."""
ROW = "[row of the data left out]"
_PREFIX = r"(?:\[\w+\]:)?"
"""Of torchrun, such as ``[default0]:``."""
_BEGIN = re.compile(
    rf"{_PREFIX}\s*(?:\[INFO:swift\]\s*)?"
    r"\[(?:[A-Z]+\d*_)?(?:INPUT|LABELS|GENERATE|PROMPT|COMPLETION)(?:_IDS)?\]"
)
"""ms-swift prints an encoded row, ``swift/template/base.py: print_inputs``, on several lines."""
_NEXT = re.compile(rf"{_PREFIX}\s*\[(?:DEBUG|INFO|WARNING|ERROR)\b|{_PREFIX}\d{{4}}-\d\d-\d\dT")
"""Begin of the next message."""
_COLUMNS = re.compile(
    r"\\?[\"'](?:messages|(?:rejected|chosen)(?:_messages|_response|_input|_input_ids|_labels)?|"
    r"prompt|query|response|completion|input_ids|labels|history|solution)\\?[\"']\s*:\s*[\"'\[{\\]"
)
"""A column of a preference dataset with its content, as tracebacks of a row show it."""


def excerpt(path: Path, head: int = HEAD, tail: int = TAIL) -> tuple[str, bool]:
    """Return a file's text, and whether its middle was left out; cuts are at ends of lines."""
    content, is_cut = files.excerpt(path, head, tail)
    return content.decode(errors="replace"), is_cut


def without_rows(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a log without rows of the data; each removed part leaves a mark.

    >>> list(without_rows(["[INFO:swift] [CHOSEN_INPUT] Hello", "my name is", "[INFO:swift] go"]))
    ['[row of the data left out]', '[INFO:swift] go']
    >>> list(without_rows(["ValueError: {'messages': [{'role': 'user'}]}"]))
    ['[row of the data left out]']
    """
    inside = False
    for line in lines:
        if _BEGIN.match(line):
            if not inside:
                yield ROW
            inside = True
            continue
        if inside and not _NEXT.match(line):
            continue
        inside = False
        if _COLUMNS.search(line):
            yield ROW
        else:
            yield line if len(line) <= LONGEST else f"{line[:LONGEST]} [... line cut]"

"""Compare the versions of upstream's packages."""

import re

_LENGTH = 3
"""Numbers of a release, as upstream writes it: 2.12 is 2.12.0."""


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version's release; empty for a text that does not begin with one.

    A pre-release counts as its release: it has the code of that release, not that of the one
    before, and the code decides which flags exist and which defects are fixed. What is local to a
    build (``+cu130``) does not count.

    >>> parse_version("2.11.0+cu130") < parse_version("2.12"), parse_version("4.6.0rc1")
    (True, (4, 6, 0))
    """
    match = re.match(r"\d+(\.\d+)*", text)
    if match is None:
        return ()
    numbers = tuple(int(each) for each in match[0].split("."))
    return numbers + (0,) * (_LENGTH - len(numbers))

"""Log events on stdout: one a line, in UTC, as ``key=value``.

Example:
    ``2026-11-21T02:03:04Z INFO rank=0 download done files=17 bytes=61083 seconds=4.1``
"""

import logging
import re
import sys
import time
from contextlib import suppress

LOG = logging.getLogger("launchers")


_UNPRINTABLE = re.compile(
    r"(\x1b\[[0-9;:]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)
"""Colours (SGR); other control characters but newline and tab (C0, DEL, C1); those of Unicode that
change the direction of text (UAX #9); surrogates."""


def printable(text: str, mark: str = "\ufffd") -> str:
    r"""Return a text without what controls a terminal: colours are removed, the rest is marked.

    >>> printable("\x1b[31mrow\x1b[0m \x1b]52;c;QQ==\x07\tend") == "row �]52;c;QQ==�\tend"
    True
    """
    return _UNPRINTABLE.sub(lambda match: "" if match[1] else mark, text)


def format_value(value: object) -> str:
    """Format one value of an event, quoted if it is not one word.

    >>> [format_value(value) for value in (1.23456, "a b", "plain", None)]
    ['1.235', '"a b"', 'plain', '-']
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    text = printable(str(value))
    if text and not any(c.isspace() or c == '"' for c in text):
        return text
    return '"' + text.replace('"', "'").replace("\n", " ") + '"'


def format_event(event: str, **fields: object) -> str:
    """Format an event with its fields.

    >>> format_event("clone done", seconds=2, ref="v1")
    'clone done seconds=2 ref=v1'
    """
    return " ".join([event, *(f"{key}={format_value(value)}" for key, value in fields.items())])


def info(event: str, **fields: object) -> None:
    """Log an event."""
    LOG.info(format_event(event, **fields))


def warning(event: str, **fields: object) -> None:
    """Log an event that needs attention but does not end the run."""
    LOG.warning(format_event(event, **fields))


def error(event: str, **fields: object) -> None:
    """Log the event that ends the run."""
    LOG.error(format_event(event, **fields))


def flush() -> None:
    """Write what waits in the buffers of stdout and stderr, if these take it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a full disk, or no one reads it any more
            stream.flush()


def configure(rank: int | None = None) -> None:
    """Send events to stdout, each with the node rank once it is known."""
    prefix = "" if rank is None else f"rank={rank} "
    formatter = logging.Formatter(
        f"%(asctime)sZ %(levelname)s {prefix}%(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    LOG.handlers[:] = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False

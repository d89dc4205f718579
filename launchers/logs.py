"""One event a line on stdout, UTC, ``key=value``: readable by people and by ``grep``.

Example:
    ``2026-11-21T02:03:04Z INFO rank=0 download done files=17 bytes=61083 seconds=4.1``
"""

from __future__ import annotations

import logging
import sys
import time

LOG = logging.getLogger("launchers")


def spell(value: object) -> str:
    """Spell one value of an event so that it stays one word, or is quoted.

    >>> spell(1.23456), spell("a b"), spell("plain"), spell(None)
    ('1.235', '"a b"', 'plain', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    text = str(value)
    if text and not any(c.isspace() or c == '"' for c in text):
        return text
    return '"' + text.replace('"', "'").replace("\n", " ") + '"'


def line(event: str, **fields: object) -> str:
    """Join an event and its fields.

    >>> line("clone done", seconds=2, ref="v1")
    'clone done seconds=2 ref=v1'
    """
    return " ".join([event, *(f"{key}={spell(value)}" for key, value in fields.items())])


def info(event: str, **fields: object) -> None:
    """Log what happened."""
    LOG.info(line(event, **fields))


def warning(event: str, **fields: object) -> None:
    """Log what a user should look at, though the run goes on."""
    LOG.warning(line(event, **fields))


def error(event: str, **fields: object) -> None:
    """Log why the run ends."""
    LOG.error(line(event, **fields))


def configure(rank: int | None = None) -> None:
    """Send the launcher's events to stdout, each with the node rank once it is known."""
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

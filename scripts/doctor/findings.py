"""One line of the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scripts.doctor.answer import Answer


class Level(StrEnum):
    """How bad it is; only FAIL says that the run would not start, or would not end well."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found of a subject, and what to do about it."""

    level: Level
    subject: str
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> Finding:
    """All is well."""
    return Finding(level=Level.OK, subject=subject, found=found)


def warn(subject: str, found: str, remedy: str = "") -> Finding:
    """It may go wrong, or could be better."""
    return Finding(level=Level.WARN, subject=subject, found=found, remedy=remedy)


def fail(subject: str, found: str, remedy: str) -> Finding:
    """The run would not work."""
    return Finding(level=Level.FAIL, subject=subject, found=found, remedy=remedy)


def unknown(subject: str, answer: Answer, remedy: str = "") -> Finding:
    """It could not be looked at: a missing permission is no fault of the run."""
    return warn(subject, f"not checked, because {answer.why}", remedy)


def names(words: Iterable[str], limit: int = 5) -> str:
    """Names in a sentence, in order, cut where they are many.

    >>> names(["b", "a"]), names([]), names("abcdefg")
    ('a, b', 'none', 'a, b, c, d, e and 2 more')
    """
    each = sorted(words)
    rest = f" and {len(each) - limit} more" if len(each) > limit else ""
    return ", ".join(each[:limit]) + rest if each else "none"

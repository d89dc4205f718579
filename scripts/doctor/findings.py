"""Findings of the checks, and the report: lines on a terminal, or JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from rich.console import Console
from rich.text import Text

from scripts.doctor.api import Answer
from scripts.terminal import SCHEMA


class Level(StrEnum):
    """Severity; only FAIL says that the run would not start, or not finish."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    level: Level
    subject: str
    """The object or resource, such as `queue gpu`."""
    found: str
    remedy: str = ""
    id: str
    """Stable name of the condition, such as `queue-missing`; `found` may be reworded."""


def ok(id: str, subject: str, found: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(id=id, level=Level.OK, subject=subject, found=found)


def warn(id: str, subject: str, found: str, remedy: str = "") -> Finding:
    """Return a finding about a condition that may fail the run."""
    return Finding(id=id, level=Level.WARN, subject=subject, found=found, remedy=remedy)


def fail(id: str, subject: str, found: str, remedy: str) -> Finding:
    """Return a finding about a condition that fails the run."""
    return Finding(id=id, level=Level.FAIL, subject=subject, found=found, remedy=remedy)


def unchecked(id: str, subject: str, answer: Answer, remedy: str = "") -> Finding:
    """Return the warning that an object could not be read, e.g. for lack of a permission.

    Its id is `<id>-unchecked`.
    """
    return warn(f"{id}-unchecked", subject, f"not checked, because {answer.why}", remedy)


def names(words: Iterable[str], limit: int = 5) -> str:
    """Return names for a sentence, sorted, the first few of many.

    >>> names(["b", "a"]), names([]), names("abcdefg")
    ('a, b', 'none', 'a, b, c, d, e and 2 more')
    """
    each = sorted(words)
    rest = f" and {len(each) - limit} more" if len(each) > limit else ""
    return ", ".join(each[:limit]) + rest if each else "none"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings about one release on one cluster."""

    context: str
    namespace: str
    run: str
    findings: Sequence[Finding]

    def count(self, level: Level) -> int:
        """Return the number of findings of a level."""
        return Counter(each.level for each in self.findings)[level]

    @property
    def exit_code(self) -> int:
        """Return 1 if a finding failed, otherwise 0."""
        return int(self.count(Level.FAIL) > 0)


def as_json(report: Report) -> str:
    """Return the report as one JSON document."""
    content = {
        "schema": SCHEMA,
        "context": report.context,
        "namespace": report.namespace,
        "run": report.run,
        "counts": {level.value: report.count(level) for level in Level},
        "findings": [asdict(each) for each in report.findings],
    }
    return json.dumps(content, indent=2)


def show(report: Report, console: Console) -> None:
    """Print one line per finding, and a summary."""
    for each in report.findings:
        console.print(_line(each), soft_wrap=True, highlight=False)
    counts = ", ".join(f"{report.count(level)} {level.value}" for level in Level)
    place = f"run {report.run} in namespace {report.namespace} of {report.context}"
    console.print(f"{counts}: {place}", soft_wrap=True, highlight=False, markup=False)


def _line(finding: Finding) -> Text:
    level = (f"{finding.level.value:<5}", COLOURS[finding.level])
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return Text.assemble(level, (f"{finding.subject}: ", "bold"), finding.found, remedy)

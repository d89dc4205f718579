"""The findings on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from scripts.doctor.finding import Finding, Level

COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
SCHEMA = 1
"""Rises when a field of the JSON changes its meaning or goes."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was looked at, and what was found."""

    context: str
    namespace: str
    run: str
    findings: Sequence[Finding]

    def count(self, level: Level) -> int:
        """How many findings have a level."""
        return Counter(each.level for each in self.findings)[level]

    @property
    def exit_code(self) -> int:
        """0 if nothing failed."""
        return int(self.count(Level.FAIL) > 0)


def as_json(report: Report) -> str:
    """The report as one JSON document."""
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
    """Print a line for each finding, and a last one that sums up."""
    for each in report.findings:
        console.print(line(each), soft_wrap=True, highlight=False)
    counts = ", ".join(f"{report.count(level)} {level.value}" for level in Level)
    place = f"run {report.run} in namespace {report.namespace} of {report.context}"
    console.print(f"{counts}: {place}", soft_wrap=True, highlight=False, markup=False)


def line(finding: Finding) -> Text:
    """One finding: level, subject, what was found, the remedy."""
    text = Text(f"{finding.level.value:<5}", style=COLOURS[finding.level])
    text.append(f"{finding.subject}: ", style="bold")
    text.append(finding.found, style="")
    if finding.remedy:
        text.append(f"; {finding.remedy}", style="")
    return text

"""`megatron-dpo report`: read runs, write one document."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from scripts import prices, redact
from scripts.observe.command import Target
from scripts.plan.units import bytes_text
from scripts.problem import Problem
from scripts.redact import Redactor
from scripts.report import Format, document, markdown, output_file, reading
from scripts.report.html import page
from scripts.report.locate import changed, located
from scripts.report.record import RunRecord

FILES = (
    r"(?:progress|plan|inputs|export)\.json", r"metrics\.jsonl", r"pairs/summary\.json",
    r"attempts/\d+/(?:start|packing)\.json",
    r"attempts/\d+/(?:termination|preflight|phases)-\d+\.json",
    r"checkpoints/checkpoint-\d+/(?:COMPLETE|DAMAGED|features)\.json", r"export/\.complete\.json",
)  # fmt: skip
"""Names of the files that `reading.py` reads."""
MOST = 12
"""Most runs in one report; the curves of more cannot be distinguished in a figure."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of the command."""

    targets: Sequence[Target]
    """Their runs are names on the workspace, or paths of runs' folders."""
    format: Format = "html"
    file: Path | None = None
    """By default ``report-<runs>.html`` here for HTML, the terminal for the others."""


def run(request: Request, console: Console) -> int:
    """Write the report; return the exit status."""
    runs = records(request)
    text = render(runs, request.format)
    file = request.file
    if file is None and request.format == "html":
        file = Path(f"report-{'-'.join(distinct(runs))[:100].replace(' ', '-')}.html")
    if file is None:
        console.out(text, end="", highlight=False)
        return 0
    output_file.write(file, text)
    console.print(f"{file.resolve()} ({bytes_text(file.stat().st_size)})", soft_wrap=True)
    return 0


def records(request: Request) -> list[RunRecord]:
    """Read the runs of a report."""
    redactor = redact.from_environment(os.environ)
    return [_record(target, redactor) for target in request.targets]


def _record(target: Target, redactor: Redactor) -> RunRecord:
    with located(target, FILES) as found:
        record = reading.read(found.work, redactor)
        changes = changed(target, found.work)
        return replace(record, place=found.how, prices=prices.read(), changes=changes)


def render(runs: Sequence[RunRecord], format: Format = "html") -> str:
    """Return the report of runs.

    Raises:
        Problem: too many runs.
    """
    if len(runs) > MOST:
        raise Problem(f"{len(runs)} runs in one report; give at most {MOST}")
    names = distinct(runs)
    if format == "json":
        return json.dumps(document.build(runs, names), indent=1, allow_nan=False) + "\n"
    if format == "md":
        return markdown.render(runs, names)
    return page.render(runs, names, made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")


def distinct(runs: Sequence[RunRecord]) -> list[str]:
    """Return unique names of runs: of equal ones, the later get a number."""
    seen: dict[str, int] = {}
    found = []
    for each in runs:
        seen[each.name] = seen.get(each.name, 0) + 1
        found.append(each.name if seen[each.name] == 1 else f"{each.name} ({seen[each.name]})")
    return found

"""The report as Markdown, short enough for a pull request."""

from collections.abc import Iterable, Sequence

from launchers.logs import printable
from scripts.plan.units import time_text
from scripts.report import facts, timeline
from scripts.report.numbers import percent
from scripts.report.record import RunRecord
from scripts.report.timeline import SHORT

_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]|#~"} | {"<": "&lt;", ">": "&gt;"})


def render(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Return one document; a column for each run."""
    figures = [{label: value for label, value, _ in facts.figures(run)} for run in runs]
    labels = list(dict.fromkeys(label for each in figures for label in each))
    parts = [
        *(
            f"**{_text(name)}**: {_text(facts.state(run))}. {_text(facts.headline(run))}"
            for run, name in zip(runs, names, strict=True)
        ),
        _table(["", *names], [[label, *(f.get(label, "–") for f in figures)] for label in labels]),
    ]
    for run, name in zip(runs, names, strict=True):
        parts += list(_run(run, name))
    return "\n\n".join(part for part in parts if part) + "\n"


def _run(run: RunRecord, name: str) -> Iterable[str]:
    yield f"### {_text(name)}"
    if why := facts.reason(run):
        yield f"Failed: {_text(why)}"
    for change in run.changes:
        yield f"Changed: {_text(change)}"
    for note in run.notes:
        yield f"Note: {_text(note)}."
    if run.attempts:
        rows = [
            [str(a.number), facts.steps(a), facts.ended(a) if a.end else ""] for a in run.attempts
        ]
        yield _table(["attempt", "steps", "end"], rows)
    found = timeline.build(run)
    if found is not None:
        spent = ", ".join(
            f"{SHORT[kind]} {time_text(seconds)} ({percent(found.share(kind))})"
            for kind, seconds in found.totals.items()
        )
        yield f"Time: {spent}."
    if planned := list(facts.planned(run)):
        yield _table(["measure", "plan", "actual", "ratio"], planned)
    if trained := facts.proof(run.pairs):
        yield f"Pairs: {_text(trained)}."
    if versions := ", ".join(f"{n} {v}" for n, v in facts.versions(run)):
        yield f"Versions: {_text(versions)}."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text if text == "---" else _text(text)


def _text(text: str) -> str:
    r"""Escape what Markdown or HTML would read as markup; line ends become spaces.

    >>> _text("a_b <i> | c")
    'a\\_b &lt;i&gt; \\| c'
    """
    return " ".join(printable(text).split()).translate(_MARKS)

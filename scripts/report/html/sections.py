"""The sections of the page."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from scripts.plan.units import time_text
from scripts.report import curves, facts, timeline
from scripts.report.curves import Drawing
from scripts.report.html import chart, spans
from scripts.report.html.markup import Html, data, tag
from scripts.report.record import RunRecord

Rows = Callable[[RunRecord], Iterable[facts.Row]]
Section = Callable[[Sequence[RunRecord], Sequence[str]], Html | None]
"""Of runs and their names; None without anything to show."""


def result(runs: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """Return what became of each run."""
    references = {facts.reference(run) for run in runs if "mfu" in run.medians}
    return tag(
        "div",
        [_result(run, name, len(runs)) for run, name in zip(runs, names, strict=True)],
        tag("p", curves.MFU_NOTE, class_="note") if len(references) > 1 else None,
    )


def _result(run: RunRecord, name: str, count: int) -> Html:
    figures = [
        tag("div", tag("dt", label), tag("dd", value, tag("small", note) if note else None))
        for label, value, note in facts.figures(run)
    ]
    why = facts.reason(run)
    word = facts.state(run)
    return tag(
        "article",
        tag("h3", name) if count > 1 else None,
        tag(
            "p",
            tag("span", word, class_=f"state {word.split(',')[0] if word else ''}"),
            facts.headline(run),
            class_="headline",
        ),
        tag("p", tag("b", "Why it failed: "), why, class_="why") if why else None,
        *(tag("p", tag("b", "Changed: "), each, class_="why") for each in run.changes),
        tag("dl", figures, class_="figures"),
    )


def all_curves(runs: Sequence[RunRecord], names: Sequence[str]) -> Html | None:
    """Return the figures, and the names of those without data."""
    found = curves.drawings(runs)
    if not found:
        return None
    missing = curves.absent(runs)
    resumed = any(each.resumes for each in found)
    reduced = any(series.points.is_reduced for each in found for series in each.series)
    notes = [
        "▾ marks the first step of a later attempt. " if resumed else None,
        "A line is the mean of consecutive steps, the band their minimum and maximum. "
        if reduced
        else None,
        f"Not recorded: {', '.join(map(in_sentence, missing))}. " if missing else None,
    ]
    return tag(
        "div",
        _legend(names) if len(runs) > 1 else None,
        tag("div", [figure(each, names) for each in found], class_="charts"),
        tag("p", notes, class_="note"),
    )


def in_sentence(title: str) -> str:
    """Return a title for the middle of a sentence.

    >>> in_sentence("GPU memory"), in_sentence("Loss")
    ('GPU memory', 'loss')
    """
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def _legend(names: Sequence[str]) -> Html:
    items = [tag("li", chart.legend_key(f"c{index % 6}"), name) for index, name in enumerate(names)]
    return tag("ul", items, class_="legend")


def figure(drawing: Drawing, names: Sequence[str]) -> Html:
    """Return one chart with its title, readout and table."""
    spec = drawing.chart
    keys: dict[str, str] = {}
    for each in drawing.series:
        keys.setdefault(
            each.label, chart.style(each, len(names)) if len(names) == 1 else chart.key_style(each)
        )
    legend = [tag("span", chart.legend_key(style), label) for label, style in keys.items()]
    scale = chart.axes(drawing)
    unit = ", ".join(filter(None, (spec.unit, "logarithmic" if scale.log else "")))
    header, *rows = chart.table(drawing, names)
    return tag(
        "figure",
        tag("figcaption", tag("h3", spec.title, tag("small", unit) if unit else None)),
        tag("div", legend, class_="keys") if len(keys) > 1 else None,
        tag("div", chart.draw(drawing, names), class_="plot", id=spec.id, data_title=spec.title),
        tag("p", class_="readout", id=f"{spec.id}-readout"),
        tag("p", spec.note, class_="note") if spec.note else None,
        tag(
            "details", tag("summary", f"Numbers of {in_sentence(spec.title)}"), table(header, rows)
        ),
        data(f"{spec.id}-data", chart.readout(drawing, names)),
    )


def time(runs: Sequence[RunRecord], names: Sequence[str]) -> Html | None:
    """Return where the time went, all runs on one scale."""
    found = [(run, name, timeline.build(run)) for run, name in zip(runs, names, strict=True)]
    scale = max((line.seconds for _, _, line in found if line), default=0.0)
    parts = [
        tag(
            "article",
            tag("h3", name) if len(runs) > 1 else None,
            tag("p", f"{time_text(line.seconds)} from {facts.clock(line.began)}.", class_="note"),
            spans.draw(run, line, scale),
            spans.sums(line),
        )
        for run, name, line in found
        if line is not None and line.seconds > 0
    ]
    return tag("div", parts) if parts else None


def rows_of(header: Sequence[str], rows: Rows, *, fold: str = "", numbers: int = 0) -> Section:
    """Return a section that shows a table for each run; None if no run has a row.

    ``fold`` is the summary of a folded table; the last ``numbers`` columns are aligned right.
    """

    def section(runs: Sequence[RunRecord], names: Sequence[str]) -> Html | None:
        found = [list(rows(run)) for run in runs]
        if not any(found):
            return None
        if len(runs) > 1 and all(len(row) == 2 for rows in found for row in rows):
            shown = table((header[0] if header else "", *names), _side_by_side(found))
            return tag("details", tag("summary", fold), shown) if fold else shown
        return tag("div", [one(*each, len(runs)) for each in zip(found, names, strict=True)])

    def one(found: Sequence[facts.Row], name: str, count: int) -> Html:
        shown = table(header, found, numbers) if found else tag("p", "Nothing.", class_="note")
        if fold and found:
            shown = tag("details", tag("summary", fold), shown)
        return tag("article", tag("h3", name) if count > 1 else None, shown)

    return section


def _side_by_side(found: Sequence[Sequence[facts.Row]]) -> Iterator[facts.Row]:
    """Yield one row for each name, with a value for each run."""
    values = [dict((name, value) for name, value in rows) for rows in found]
    for name in dict.fromkeys(name for each in values for name in each):
        yield name, *(each.get(name, "–") for each in values)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Html:
    """Return a table that scrolls on its own where it is wider than the page."""
    body: list[Html] = []
    for row in rows:
        first = len(row) - numbers
        cells = [
            tag("td", cell, class_="n" if at >= first else None)
            for at, cell in enumerate(row)
            if at
        ]
        body.append(tag("tr", tag("th", row[0], scope="row"), cells))
    count = len(header) - numbers
    head = [
        tag("th", name, scope="col", class_="n" if at >= count else None)
        for at, name in enumerate(header)
    ]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", head)) if header else None, tag("tbody", body)),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label=", ".join(header) or "table",
    )

"""Draw where the time went: a bar for each attempt on one scale, and a bar of the sums."""

from collections.abc import Mapping, Sequence

from scripts.plan.units import time_text
from scripts.report import facts, numbers
from scripts.report.html.markup import Html, tag
from scripts.report.record import Attempt, RunRecord
from scripts.report.timeline import KINDS, SHORT, Kind, Timeline

MANY = 80
"""Attempts that are drawn; of more, the first and the newest."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def draw(run: RunRecord, found: Timeline, scale: float) -> Html:
    """Return the attempts of a run.

    The full width is ``scale`` seconds, the same for runs side by side.
    """
    shown = list(run.attempts)
    left_out = max(0, len(shown) - MANY)
    if left_out:
        shown = [*shown[: MANY // 2], *shown[-MANY // 2 :]]
    rows = [_attempt(attempt, found, scale) for attempt in shown]
    note = tag("p", f"{left_out} attempts in the middle are not drawn.") if left_out else None
    return tag("div", tag("ol", rows, class_="attempts"), axis(scale), note, class_="spans")


def _attempt(attempt: Attempt, found: Timeline, scale: float) -> Html:
    spans = [span for span in found.spans if span.attempt == attempt.number]
    words = ", ".join(f"{SHORT[span.kind]} {time_text(span.seconds)}" for span in spans)
    bars = [
        tag(
            "rect",
            x=_percent(span.begin / scale),
            width=_percent(span.seconds / scale),
            y=0,
            height=18,
            class_=span.kind,
        )
        for span in spans
    ]
    resumed = f", from the checkpoint of step {attempt.resumed:,}" if attempt.resumed else ""
    end = facts.ended(attempt) if attempt.end else ""
    return tag(
        "li",
        tag("p", tag("b", f"Attempt {attempt.number}"), f" {facts.steps(attempt)}{resumed}. {end}"),
        tag("svg", bars, class_="bar", role="img", aria_label=words or "never trained"),
    )


def axis(scale: float) -> Html:
    """Return the time axis below the bars."""
    factor, unit = next(((f, u) for f, u in _UNITS if scale >= 2 * f), _UNITS[-1])
    found = numbers.ticks(0, scale / factor, 5)
    marks = [
        tag(
            "text",
            f"{numbers.short(at)} {unit}",
            x=_percent(at * factor / scale),
            y=14,
            class_="first" if at == 0 else "last" if at * factor > 0.95 * scale else None,
        )
        for at in found
    ]
    lines = [tag("line", x1=(x := _percent(at * factor / scale)), x2=x, y1=0, y2=4) for at in found]
    return tag("svg", lines, marks, class_="axis", aria_hidden="true")


def sums(found: Timeline) -> Html:
    """Return one bar of all the time by kind, and its table."""
    at, bars = 0.0, []
    for kind, seconds in found.totals.items():
        bars.append(
            tag(
                "rect",
                x=_percent(at / found.seconds),
                width=_percent(seconds / found.seconds),
                y=0,
                height=18,
                class_=kind,
            )
        )
        at += seconds
    return tag(
        "div",
        tag("svg", bars, class_="bar", role="img", aria_label=_words(found.totals)),
        tag("table", tag("tbody", [_row(kind, found) for kind in found.totals]), class_="sums"),
        class_="total",
    )


def _row(kind: Kind, found: Timeline) -> Html:
    key = tag("svg", tag("rect", width=14, height=14, class_=kind), class_="swatch")
    return tag(
        "tr",
        tag("th", key, SHORT[kind], scope="row"),
        tag("td", time_text(found.totals[kind]), class_="n"),
        tag("td", numbers.percent(found.share(kind)), class_="n"),
        tag("td", KINDS[kind], class_="why"),
    )


def _words(totals: Mapping[Kind, float]) -> str:
    parts: Sequence[str] = [
        f"{SHORT[kind]} {time_text(seconds)}" for kind, seconds in totals.items()
    ]
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"

"""Draw a chart as inline SVG: data to paths. Colours and fonts are in ``page.css``."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.report import numbers
from scripts.report.curves import Chart, Drawing, Series
from scripts.report.html.markup import Html, tag

WIDTH, HEIGHT = 380, 214
"""Of the viewBox; a figure is shown at about this many CSS pixels, so text keeps its size."""
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 14, 24
STEEP = 30.0
"""Largest over median from which a positive series is drawn on a logarithmic axis."""
FLAT = 1e-9
"""Range over the largest value up to which a series is drawn as constant."""
ALONE = 60
"""Number of points up to which each is marked in an evaluation's series."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The ranges of a chart, and the way from data to the viewBox."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False

    def left(self, step: float) -> float:
        """Return the x coordinate of a step."""
        first, last = self.x
        return LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def top(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = (self._scaled(end) for end in self.y)
        share = (self._scaled(value) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    @property
    def y_ticks(self) -> list[float]:
        """Return the values of the labelled lines."""
        return numbers.powers(*self.y) if self.log else numbers.ticks(*self.y, 4)


def axes(drawing: Drawing) -> Axes:
    """Return the ranges that show all data and lines of a chart.

    A recorded value is never cut off. The axis is logarithmic if the chart allows it, all values
    are positive and few are far above the rest.
    """
    chart = drawing.chart
    steps = [step for each in drawing.series for step in each.points.steps]
    first, last = min(steps), max(steps)
    if first == last:
        first, last = first - 1, last + 1
    lows = [low for each in drawing.series for low in each.points.lows]
    highs = [high for each in drawing.series for high in each.points.highs]
    given = [line.value for line in drawing.lines]
    low, high = min(*lows, *given, math.inf), max(*highs, *given, -math.inf)
    means = sorted(mean for each in drawing.series for mean in each.points.means)
    median = means[len(means) // 2]
    if chart.log and low > 0 and high > STEEP * median:
        return Axes(x=(first, last), y=(low / 1.15, high * 1.15), log=True)
    return Axes(x=(first, last), y=_range(chart, low, high))


def _range(chart: Chart, low: float, high: float) -> tuple[float, float]:
    if chart.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if chart.top is not None:
        high = max(high, chart.top)
    if high - low <= FLAT * max(abs(low), abs(high), 1e-290):
        pad = abs(high) * 0.05 or 1.0
        return low - pad, high + pad
    pad = 0.06 * (high - low)
    is_top_fixed = chart.top is not None and high <= chart.top
    # Zero and a fixed top are edges of the figure; other ends get some room.
    return low if low == 0 else low - pad, high if high == 0 or is_top_fixed else high + pad


def draw(drawing: Drawing, names: Sequence[str]) -> Html:
    """Return the figure's drawing."""
    scale = axes(drawing)
    title = f"{drawing.chart.id}-title"
    return tag(
        "svg",
        tag("title", drawing.chart.title, id=title),
        tag("desc", described(drawing, names), id=f"{drawing.chart.id}-desc"),
        _grid(scale),
        [_resume(scale, step) for step in drawing.resumes],
        [_rule(scale, line.label, line.value) for line in drawing.lines],
        [_band(scale, each, len(names)) for each in drawing.series if each.points.is_reduced],
        [_line(scale, each, len(names)) for each in drawing.series],
        tag("g", class_="cursor", aria_hidden="true"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby=f"{title} {drawing.chart.id}-desc",
    )


def described(drawing: Drawing, names: Sequence[str]) -> str:
    """Return the chart in words, for readers who do not see it."""
    return " ".join(
        f"{label(each, names)}: {numbers.plain(points.means[0])} at step "
        f"{numbers.plain(points.steps[0])}, {numbers.plain(points.means[-1])} at step "
        f"{numbers.plain(points.steps[-1])}, between {numbers.plain(min(points.lows))} and "
        f"{numbers.plain(max(points.highs))}."
        for each in drawing.series
        for points in [each.points]
    )


def label(series: Series, names: Sequence[str]) -> str:
    """Return the name of a series, with its run's if there are several."""
    return series.label if len(names) == 1 else f"{names[series.run]}, {series.label}"


def style(series: Series, runs: int) -> str:
    """Return the classes of a series: colour by run, or by series where there is one run."""
    colour = series.run if runs > 1 else series.part
    dashes = " dashed" if runs > 1 and series.part and not series.is_evaluation else ""
    return f"c{colour % 6}{' held' if series.is_evaluation else ''}{dashes}"


def key_style(series: Series) -> str:
    """Return the classes of a series in the legend of a figure of several runs: no colour."""
    if series.is_evaluation:
        return "any held"
    return "any dashed" if series.part else "any"


def _grid(scale: Axes) -> Html:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    rows = [
        (
            tag("line", x1=LEFT, x2=right, y1=_n(scale.top(at)), y2=_n(scale.top(at))),
            tag("text", numbers.short(at), x=LEFT - 6, y=_n(scale.top(at) + 3.5), class_="y"),
        )
        for at in scale.y_ticks
    ]
    columns = [
        tag(
            "text",
            numbers.short(at),
            x=_n(scale.left(at)),
            y=bottom + 15,
            class_="x last" if scale.left(at) > WIDTH - RIGHT - 12 else "x",
        )
        for at in _whole(numbers.ticks(*scale.x, 5))
    ]
    base = tag("line", x1=LEFT, x2=right, y1=bottom, y2=bottom, class_="base")
    return tag("g", rows, columns, base, class_="grid", aria_hidden="true")


def _whole(found: Sequence[float]) -> list[float]:
    return [at for at in found if at == int(at)] or list(found[:1])


def _resume(scale: Axes, step: int) -> Html:
    at = _n(scale.left(step))
    return tag(
        "g",
        tag("line", x1=at, x2=at, y1=TOP - 4, y2=HEIGHT - BOTTOM),
        tag("path", d=f"M{at} {TOP - 4}l-3.5 -5h7z"),
        class_="resume",
        aria_hidden="true",
    )


def _rule(scale: Axes, name: str, value: float) -> Html:
    at = scale.top(value)
    return tag(
        "g",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_n(at), y2=_n(at)),
        tag("text", f"{name} {numbers.plain(value)}", x=WIDTH - RIGHT, y=_n(max(at - 4, 9))),
        class_="rule",
        aria_hidden="true",
    )


def _line(scale: Axes, series: Series, runs: int) -> Html:
    points = list(zip(series.points.steps, series.points.means, strict=True))
    marks: list[Html] = []
    if series.is_evaluation and len(points) <= ALONE or len(points) == 1:
        marks = [
            tag("circle", cx=_n(scale.left(step)), cy=_n(scale.top(value)), r=3)
            for step, value in points
        ]
    shape = tag("path", d=_path(scale, points))
    return tag("g", shape, marks, class_=f"line {style(series, runs)}")


def _band(scale: Axes, series: Series, runs: int) -> Html:
    points = series.points
    there = list(zip(points.steps, points.highs, strict=True))
    back = list(zip(points.steps, points.lows, strict=True))[::-1]
    outline = f"{_path(scale, [*there, *back])}z"
    return tag("path", d=outline, class_=f"band {style(series, runs)}", aria_hidden="true")


def _path(scale: Axes, points: Sequence[tuple[float, float]]) -> str:
    """Return the commands of a line through the points.

    >>> _path(Axes(x=(0, 10), y=(0, 1)), [(0, 0), (10, 1)])
    'M44 190L372 14'
    """
    pairs = (f"{_n(scale.left(step))} {_n(scale.top(value))}" for step, value in points)
    return "M" + "L".join(pairs)


def _n(coordinate: float) -> str:
    """Return a coordinate in tenths of a pixel."""
    return f"{coordinate:.1f}".removesuffix(".0")


def readout(drawing: Drawing, names: Sequence[str]) -> dict[str, Any]:
    """Return the data for the cursor of the page's script: axes, and the points of each series."""
    scale = axes(drawing)
    return {
        "x": scale.x,
        "y": scale.y,
        "log": scale.log,
        "series": [
            {
                "label": label(each, names),
                "style": style(each, len(names)),
                "steps": list(each.points.steps),
                "means": _rounded(each.points.means),
                **(
                    {"lows": _rounded(each.points.lows), "highs": _rounded(each.points.highs)}
                    if each.points.is_reduced
                    else {}
                ),
            }
            for each in drawing.series
        ],
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def legend_key(class_: str) -> Html:
    """Return the line of a series as it is drawn, for the legend."""
    mark = tag("circle", cx=11, cy=5, r=3) if " held" in class_ else None
    return tag(
        "svg",
        tag("g", tag("path", d="M1 5L21 5"), mark, class_=f"line {class_}"),
        viewBox="0 0 22 10",
        class_="key",
        aria_hidden="true",
    )


def table(drawing: Drawing, names: Sequence[str], rows: int = 12) -> Iterator[tuple[str, ...]]:
    """Yield rows of a table of the chart, the header first: step, series, value, range.

    At most ``rows`` of each series are evenly spread, with the first and the last.
    """
    yield "series", "step", "value", "range"
    for each in drawing.series:
        points = each.points
        size = len(points.steps)
        count = min(rows, size)
        for at in sorted({round(n * (size - 1) / max(1, count - 1)) for n in range(count)}):
            span = (
                f"{numbers.plain(points.lows[at])} to {numbers.plain(points.highs[at])}"
                if points.is_reduced
                else ""
            )
            yield (
                label(each, names),
                numbers.plain(points.steps[at]),
                numbers.plain(points.means[at]),
                span,
            )

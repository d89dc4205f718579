"""Tables and plot of the proof of learning: the results ``learning-*``."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.dev import results
from scripts.dev.figures.canvas import canvas, save
from scripts.dev.figures.markdown import table

Record = Mapping[str, Any]
NONE = "None yet."
OURS, UPSTREAM = "ours", "upstream"
COLOURS = {OURS: "#4477aa", UPSTREAM: "#ee6677"}
COLUMNS = ("figure", "ours", "upstream", "difference, 90 % interval", "bound", "result")
OTHERS = {
    "kernels": "upstream with other kernels",
    "equal-weights": "equal weights of pairs",
    "control": "control",
}
"""Sides that are reported in addition to the test, and the headings of their columns."""


def newest_first(folder: Path = results.FOLDER) -> list[Record]:
    """Return the results, the newest first."""
    found = results.read(folder, "learning-").values()
    return sorted(found, key=lambda record: str(record["when"]), reverse=True)


def summary(records: Sequence[Record]) -> str:
    """Return a table for each result."""
    return "\n\n".join(map(_summary, records)) or NONE


def _summary(record: Record) -> str:
    """Return a line for each compared figure: means over the seeds, the test, and other sides."""
    tests, versions = record["judged"]["tests"], record["versions"]
    others = {title: tests[side] for side, title in OTHERS.items() if tests.get(side)}
    stack = f"ms-swift {versions['ms-swift']}, Transformer Engine {versions['transformer-engine']}"
    gpus = f"{len(record['gpus'])} x {record['gpus'][0].split(',')[0]}"
    lines = [_line(name, test, list(others.values())) for name, test in tests[OURS].items()]
    return f"{record['when'][:10]}, {gpus}, {stack}:\n\n{table((*COLUMNS, *others), lines)}"


def _line(name: str, test: Record, others: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    means = [f"{statistics.mean(test[side]):.4g}" for side in (OURS, UPSTREAM)]
    span = f"{test['mean']:+.4f}, {test['low']:+.4f} to {test['high']:+.4f}"
    said = "equivalent" if test["equivalent"] else "different"
    controls = (_interval(other.get(name)) for other in others)
    return (name, *means, span, f"{test['bound']:g}", said, *controls)


def _interval(test: Record | None) -> str:
    return "" if test is None or "low" not in test else f"{test['low']:+.4f} to {test['high']:+.4f}"


def draw(record: Record, path: Path) -> None:
    """Write the plot as SVG: training loss and gradient norm by step, held-out figures by seed."""
    from matplotlib.ticker import MaxNLocator

    figure = canvas(12, 3.4)
    panes = figure.subplots(1, 4)
    runs = {side: _runs(record, side) for side in (OURS, UPSTREAM)}
    for pane, name, title in (
        (panes[0], "loss", "training loss"),
        (panes[1], "grad_norm", "gradient norm"),
    ):
        for side, each in runs.items():
            _band(pane, [run["log"][name] for run in each], side)
        pane.set(title=title, xlabel="step")
    for pane, name in ((panes[2], "accuracy"), (panes[3], "margin")):
        for side, each in runs.items():
            seeds = [run["seed"] for run in each]
            values = [run["after"][name] for run in each]
            pane.plot(
                seeds,
                values,
                "D" if side == OURS else "o",
                color=COLOURS[side],
                label=side,
                fillstyle="none",
            )
        pane.set(title=f"held-out {name}", xlabel="seed")
    for pane in panes:
        pane.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        pane.grid(alpha=0.3)
        pane.legend(fontsize=7)
    save(figure, path)


def _runs(record: Record, side: str) -> list[Record]:
    return [run for run in record["runs"].values() if run["side"] == side and run["finished"]]


def _band(pane: Any, curves: Sequence[Sequence[float]], side: str) -> None:
    """Draw the mean of the seeds, and their extremes."""
    columns = list(zip(*curves, strict=False))
    steps = range(1, len(columns) + 1)
    means = [statistics.mean(column) for column in columns]
    pane.plot(steps, means, color=COLOURS[side], label=f"{side}, mean of {len(curves)} seeds")
    low, high = [min(c) for c in columns], [max(c) for c in columns]
    pane.fill_between(steps, low, high, color=COLOURS[side], alpha=0.2, linewidth=0)

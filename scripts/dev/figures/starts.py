"""Plot of the predicted and the actual starts of `tests/e2e/bench/start.csv`."""

import csv
import math
from pathlib import Path

from scripts.dev.figures.canvas import canvas, save
from scripts.helm import ROOT

TABLE = ROOT / "tests" / "e2e" / "bench" / "start.csv"
PLOT = TABLE.with_suffix(".svg")
COLOURS = {True: "#4477aa", False: "#ee6677"}
"""By whether the actual start is in the predicted interval."""


def draw(table: Path = TABLE, path: Path = PLOT) -> Path:
    """Write the plot as SVG: a dot for each prediction, in seconds from its moment.

    Returns:
        Its path.
    """
    with table.open(encoding="utf-8", newline="") as file:
        rows = [
            {name: float(v or "inf") for name, v in row.items() if name != "gang"}
            for row in csv.DictReader(file)
        ]
    figure = canvas(6, 4.2)
    axes = figure.subplots()
    for is_inside, colour in COLOURS.items():
        found = [
            row
            for row in rows
            if (row["earliest"] <= row["actual"] <= row["latest"]) == is_inside
            and math.isfinite(row["expected"])
        ]
        label = f"{len(found):,} starts {'inside' if is_inside else 'outside'} the interval"
        actual, expected = ([row[name] for row in found] for name in ("actual", "expected"))
        axes.plot(actual, expected, ".", color=colour, markersize=3, alpha=0.6, label=label)
    most = max(row["actual"] for row in rows)
    axes.plot([0, most], [0, most], color="#555555", linewidth=0.8)
    axes.set(xlabel="actual wait, s", ylabel="predicted wait, s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left")
    save(figure, path)
    return path

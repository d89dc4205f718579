"""An empty plot, and its file, which is the same for the same figures."""

import io
from pathlib import Path
from typing import Any


def canvas(width: float, height: float) -> Any:
    """Return a figure of matplotlib, in inches, whose texts stay text."""
    import matplotlib  # of half a second, which a plot takes and a table does not
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "figures", "svg.fonttype": "none"})
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure as SVG, with a line per group: other whitespace has no meaning in it."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    joined = " ".join(text.getvalue().split())
    path.write_text(joined.replace(" <g id=", "\n<g id=") + "\n", encoding="utf-8")

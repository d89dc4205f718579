"""An empty plot, for a file that is the same for the same figures."""

from typing import Any


def canvas(width: float, height: float) -> Any:
    """Return a figure of matplotlib, in inches, whose texts stay text."""
    import matplotlib  # of half a second, which a plot takes and a table does not
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "figures", "svg.fonttype": "none"})
    return Figure(figsize=(width, height), layout="constrained")

"""``python -m scripts.dev.figures``: rewrite the figures of values/FIGURES.md and the plot."""

import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.dev.figures import learning, pictures, starts, table
from scripts.dev.figures.markdown import filled
from scripts.dev.figures.measured import Run, runs
from scripts.dev.figures.plot import draw
from scripts.dev.figures.predicted import Predicted, predictions
from scripts.helm import ROOT
from scripts.problem import Problem

PAGE = ROOT / "values" / "FIGURES.md"
PLOT = ROOT / "values" / "step-time.svg"
LEARNING_PLOT = ROOT / "values" / "learning.svg"


def page(text: str, rows: Sequence[Predicted], found: Sequence[Run]) -> str:
    """Return the page with the figures of now."""
    blocks = {
        "predicted": table.predicted(rows, found),
        "headline": table.headline(found),
        "measured": table.ran(found),
        "learning": learning.summary(learning.newest_first()),
    }
    return filled(text, blocks)


def main() -> int:
    """Write all files."""
    rows, found = predictions(), runs()
    try:
        text = page(PAGE.read_text(encoding="utf-8"), rows, found)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    PAGE.write_text(text, encoding="utf-8")
    draw(rows, found, PLOT)
    written = [PAGE, PLOT, starts.draw()]
    for proof in learning.newest_first()[:1]:
        learning.draw(proof, LEARNING_PLOT)
        written.append(LEARNING_PLOT)
    try:
        written += pictures.draw()
    except Problem as problem:
        print(problem, file=sys.stderr)
    for path in written:
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

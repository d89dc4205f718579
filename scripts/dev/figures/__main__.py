"""``python -m scripts.dev.figures``: rewrite the figures of values/FIGURES.md."""

import sys
from collections.abc import Sequence

from scripts.dev.figures import learning, table
from scripts.dev.figures.markdown import filled
from scripts.dev.figures.measured import Run, runs
from scripts.dev.figures.predicted import Predicted, predictions
from scripts.helm import ROOT
from scripts.problem import Problem

PAGE = ROOT / "values" / "FIGURES.md"


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
    """Write the page."""
    try:
        text = page(PAGE.read_text(encoding="utf-8"), predictions(), runs())
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())

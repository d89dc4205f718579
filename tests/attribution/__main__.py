"""``python -m tests.attribution [--development]``: the confusion matrix of the corpus."""

import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from launchers.exits import FailureClass
from tests.attribution.corpus import PARTS, Judged, judge, load

RIGHT = 0.98
"""Share of the corpus that must be judged right."""


def main(arguments: Sequence[str]) -> int:
    """Print the matrix and the mistakes; 1 if a bound is missed.

    With ``--development`` only the mistakes of that part are shown, which patterns are written for.
    """
    console = Console(width=200)
    is_development = "--development" in arguments
    judged = list(judge(load()))
    console.print(matrix(judged))
    for part in PARTS:
        console.print(f"{part}: {summary([each for each in judged if each.case.part == part])}")
    console.print(f"all: {summary(judged)}")
    for each in judged:
        if not each.is_right and (each.case.part == "development" or not is_development):
            found = f"{each.failure_class} {int(each.code)}{' cascade' if each.cascade else ''}"
            line = f"wrong: {each.case.name}: {int(each.case.code)}, found {found}"
            console.print(line, markup=False, highlight=False)
    return 0 if keeps_bounds(judged) else 1


def matrix(judged: Sequence[Judged]) -> Table:
    """Return the confusion matrix: a row for each expected class, a column for each found one."""
    counts = Counter((each.case.failure_class, each.failure_class) for each in judged)
    made = Table("expected \\ found", *FailureClass, title="Attribution")
    for expected in FailureClass:
        cells = [str(counts[expected, found] or "·") for found in FailureClass]
        made.add_row(expected, *cells)
    return made


def summary(judged: Sequence[Judged]) -> str:
    right = sum(each.is_right for each in judged)
    restarted = sum(each.restarts_user_error for each in judged)
    ended = sum(each.ends_for_good for each in judged)
    return (
        f"{right} of {len(judged)} right ({right / len(judged):.1%}); {restarted} user errors "
        f"restarted; {ended} others ended for good"
    )


def keeps_bounds(judged: Sequence[Judged]) -> bool:
    """Return whether enough are right and none is wrong about whether a restart may help."""
    right = sum(each.is_right for each in judged)
    wrong = any(each.restarts_user_error or each.ends_for_good for each in judged)
    return right >= RIGHT * len(judged) and not wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

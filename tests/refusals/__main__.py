"""``python -m tests.refusals [SUBJECT ...]``: a table of all cases, and what refuses each."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.refusals.cases import BEFORE, load
from tests.refusals.judge import Verdict, all_of

WANTED = 0.9
"""Share that must be refused before anything is submitted."""


def main(subjects: Sequence[str]) -> int:
    """Judge the cases; 1 if one is not refused as its entry says."""
    console = Console()
    cases = [case for case in load() if not subjects or case.subject in subjects]
    if not cases:
        console.print(f"no such subject: {' '.join(subjects)}")
        return 64
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, console.status("judging") as status:
        verdicts = []
        for verdict in all_of(cases, Path(folder)):
            verdicts.append(verdict)
            status.update(f"{len(verdicts)} of {len(cases)}")
    console.print(table(verdicts))
    wrong = [v for v in verdicts if v.mistakes]
    for verdict in wrong:
        console.print(f"[red]{verdict.case.name}[/]: {'; '.join(verdict.mistakes)}", markup=True)
        console.print(verdict.text.strip()[-1500:], markup=False, highlight=False)
    share = sum(v.where in BEFORE for v in verdicts) / len(verdicts)
    console.print(summary(verdicts, share, time.monotonic() - begin))
    return 1 if wrong or (not subjects and share < WANTED) else 0


def table(verdicts: Sequence[Verdict]) -> Table:
    made = Table("case", "refused by", "seconds", "exit", title="Wrong configurations")
    for verdict in verdicts:
        style = "red" if verdict.mistakes else ""
        seconds, code = f"{verdict.seconds:.2f}", str(verdict.code)
        made.add_row(verdict.case.name, verdict.where, seconds, code, style=style)
    return made


def summary(verdicts: Sequence[Verdict], share: float, seconds: float) -> str:
    counts = ", ".join(f"{where} {n}" for where, n in Counter(v.where for v in verdicts).items())
    late = [v for v in verdicts if v.where == "launcher"]
    slow = max(late or verdicts, key=lambda v: v.seconds)
    return "\n".join(
        (
            f"{len(verdicts)} cases in {seconds:.0f} s: {counts}",
            f"refused before submission: {share:.1%} (wanted: {WANTED:.0%})",
            f"slowest in the launcher: {slow.seconds:.1f} s, {slow.case.name}",
            f"not as said: {sum(bool(v.mistakes) for v in verdicts)}",
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

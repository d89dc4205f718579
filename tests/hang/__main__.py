"""``python -m tests.hang [--cases N] [--seed N] [--jobs N] [--kinds KIND ...] [--results FILE]``.

Injects hangs and prints fault by outcome; a tenth of the cases more are slow ranks without a hang,
and as many each are stopped torchruns, blocked writes in the background and hangs in the first
step. With ``--kinds`` each seed injects each of these, and nothing else. The exit code is 1 if
fewer than 95 % are attributed right, if one is noticed after more than a minute, or if a slow rank
counts as a hang.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from scripts.dev import results
from tests.hang.cases import KINDS, MORE, Case
from tests.hang.gang import Outcome, run

RIGHT = 0.95
"""Share of the hangs that must be attributed right."""
NOTICED_SECONDS = 60.0
VERDICTS = ("right", "unknown", "wrong", "missed")


def chosen(cases: int, seed: int, kinds: Sequence[str] = ()) -> list[Case]:
    """Return the hangs of the seeds, and a tenth as many of each in ``MORE``, spread over them.

    Each seed has ``kinds``; the mix without any.
    """
    if kinds:
        return [Case.of(number, kind) for number in range(seed, seed + cases) for kind in kinds]
    found: list[Case] = []
    for number in range(seed, seed + cases):
        found.append(Case.of(number))
        found += [Case.of(number, kind) for kind, digit in MORE.items() if number % 10 == digit]
    return found


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return a row for each fault: its outcomes, and the seconds until it was noticed."""
    made = Table("fault", "cases", *VERDICTS, "seconds, median", "seconds, most", title="Hangs")
    for kind in KINDS:
        some = [each for each in outcomes if each.case.kind == kind]
        if not some:
            continue
        counts = [sum(each.verdict == verdict for each in some) for verdict in VERDICTS]
        took = sorted(each.seconds for each in some if each.seconds is not None)
        spread = [f"{took[len(took) // 2]:.1f}", f"{took[-1]:.1f}"] if took else ["", ""]
        made.add_row(f"{kind}: {KINDS[kind]}", str(len(some)), *map(str, counts), *spread)
    return made


def keeps_bounds(outcomes: Sequence[Outcome]) -> bool:
    """Return whether enough hangs are attributed right and in time, and no slow rank is one."""
    hangs = [each for each in outcomes if each.case.kind != "none"]
    right = sum(each.verdict == "right" for each in hangs)
    in_time = all(each.seconds is None or each.seconds <= NOTICED_SECONDS for each in hangs)
    calm = all(each.verdict == "right" for each in outcomes if each.case.kind == "none")
    return right >= RIGHT * len(hangs) and in_time and calm


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hang")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=())
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    console = Console(width=160)

    def one(case: Case) -> Outcome:
        with TemporaryDirectory(prefix="hang-") as folder:
            begin = time.monotonic()
            outcome = run(Path(folder), case)
        took = time.monotonic() - begin
        line = f"{case.seed} {case.kind} of rank {case.rank}: {outcome.verdict}, {took:.0f} s"
        console.print(line, markup=False, highlight=False)
        if outcome.verdict != "right":
            console.print(outcome.log, markup=False, highlight=False)
        return outcome

    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(one, chosen(options.cases, options.seed, options.kinds)))
    if options.results:
        rows = [each.row() for each in outcomes]
        options.results.write_text(results.text(rows), encoding="utf-8")
    console.print(table(outcomes))
    return 0 if keeps_bounds(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

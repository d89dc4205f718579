"""``make differential-api``: ``CASES`` drawn pod parts, as a table of who refuses how many."""

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.api.compare import Outcome
from tests.api.running import comparison
from tests.api.sections import SECTIONS

VERDICTS = ("none", "both", "unasked", "chart", "server")


def main() -> int:
    """Compare, print the table and the reasons; return 1 if only the server refuses something."""
    first, cases = int(os.environ.get("CASES_SEED", "0")), int(os.environ.get("CASES", "1000"))
    outcomes: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="megatron-dpo-api-") as folder,
        comparison(Path(folder)) as compared,
    ):
        for outcome in compared.of(range(first, first + cases)):
            outcomes.append(outcome)
            if outcome.verdict == "server":
                print(f"{outcome.section}: {json.dumps(outcome.values)[:1000]}")
                print(f"    {outcome.server}", flush=True)
    print(f"{cases} cases from seed {first}\n")
    print(table(outcomes))
    print(f"\n{reasons(outcomes)}")
    return int(any(outcome.verdict == "server" for outcome in outcomes))


def table(outcomes: list[Outcome]) -> str:
    """Return how many of each section are refused by whom, as Markdown."""
    counts = Counter((outcome.section, outcome.verdict) for outcome in outcomes)
    rows = [
        "| part | both accept | both refuse | refused at render | only the chart refuses "
        "| only the server refuses |",
        "|---|---|---|---|---|---|",
    ]
    for section in SECTIONS:
        rows.append(f"| {section} | {' | '.join(str(counts[section, v]) for v in VERDICTS)} |")
    total = Counter(outcome.verdict for outcome in outcomes)
    rows.append(f"| all | {' | '.join(str(total[v]) for v in VERDICTS)} |")
    return "\n".join(rows)


def reasons(outcomes: list[Outcome]) -> str:
    """Return why the chart alone refuses, the most frequent reason first."""
    found = Counter(f"{o.section}: {o.chart}" for o in outcomes if o.verdict == "chart")
    return "\n".join(f"{count:5d} {reason}" for reason, count in found.most_common())


if __name__ == "__main__":
    sys.exit(main())

"""A complete visit: ``python3 -m tests.gpu.bench_visit NAME TOKENIZER RESULTS [LINE ...]``.

``visits.yaml`` lists the lines; without LINE all lines of NAME run, one after the other. A line is
the arguments of the bench, or of the program in ``launcher/`` that its first word names. A line
that fails does not stop the next ones. Weak scaling is printed if its lines have run.
"""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.gpu import host
from tests.gpu.bench import command as bench
from tests.gpu.launcher import faults, hangs, matrix, nodes, rehearse, saves

VISITS = Path(__file__).with_name("visits.yaml")
SCALING = "scaling-"
PROGRAMS = {
    "faults": faults,
    "hangs": hangs,
    "matrix": matrix,
    "nodes": nodes,
    "rehearse": rehearse,
    "saves": saves,
}
"""Programs that go through the launcher, by the first word of a line."""


def names() -> list[str]:
    """Return the names of the visits."""
    return list(yaml.safe_load(VISITS.read_text(encoding="utf-8")))


def lines(name: str) -> dict[str, list[str]]:
    """Return the words of each line of a visit.

    Raises:
        ValueError: there is no such visit.
    """
    visits = yaml.safe_load(VISITS.read_text(encoding="utf-8"))
    if name not in visits:
        raise ValueError(f"{name} is not a visit; write {' or '.join(visits)}")
    return {line: shlex.split(words) for line, words in visits[name].items()}


def command(name: str, line: str, tokenizer: str, results: str, words: Sequence[str]) -> list[str]:
    """Return the arguments of a line's program.

    >>> command("2gpu", "faults", "t", "r", ["faults", "--gpus", "2"])
    ['t', 'r', '--label', '2gpu-faults', '--gpus', '2']
    """
    rest = words[1:] if words[0] in PROGRAMS else words
    return [tokenizer, results, "--label", f"{name}-{line}", *rest]


def scaling(rates: Mapping[int, float]) -> list[str]:
    """Return a sentence for each step of a weak scaling.

    Args:
        rates: tokens per second and GPU by the number of GPUs.

    >>> scaling({2: 1000.0, 4: 950.0})
    ['2 to 4 GPUs: 95.0 % of the tokens per second and GPU']
    """
    counts = sorted(rates)
    return [
        f"{few} to {many} GPUs: {rates[many] / rates[few]:.1%}".replace("%", " %")
        + " of the tokens per second and GPU"
        for few, many in zip(counts, counts[1:], strict=False)
    ]


def _rates(results: Path, name: str) -> dict[int, float]:
    """Read tokens per second per GPU from the existing results of the weak scaling."""
    rates: dict[int, float] = {}
    for file in results.glob(f"bench-{name}-{SCALING}*.json"):
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        for run in record["runs"].values():
            if run.get("steps"):
                rates[record["gpus_used"]] = run["tokens_per_second_per_gpu"]["median"]
    return rates


def attempt(words: Sequence[str], given: Sequence[str]) -> int:
    """Run a line; return 1 if it raises, so that the next lines still run."""
    try:
        code: int = PROGRAMS.get(words[0], bench).main(given)
    except Exception:
        traceback.print_exc()
        return 1
    return code


def main(words: Sequence[str]) -> int:
    """Run a visit; return the largest exit code of its lines."""
    if len(words) < 3:
        print("usage: python3 -m tests.gpu.bench_visit NAME TOKENIZER RESULTS [LINE ...]")
        return 2
    name, tokenizer, results, *only = words
    try:
        chosen = lines(name)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    wanted, seen = int(name.removesuffix("gpu")), len(host.about()["gpus"])
    if seen < wanted:
        print(
            f"bench: the visit {name} needs {wanted} GPUs and this host has {seen}", file=sys.stderr
        )
        return 2
    codes = []
    for line in only or chosen:
        print(f"== {name} {line}", flush=True)
        codes.append(attempt(chosen[line], command(name, line, tokenizer, results, chosen[line])))
    print("\n".join(scaling(_rates(Path(results), name))))
    return max(codes)


if __name__ == "__main__":
    sys.exit(host.run(lambda: main(sys.argv[1:])))

"""Lines of a visit: ``python3 -m tests.bench visit NAME TOKENIZER RESULTS [LINE ...]``.

``visits.yaml`` lists them; without LINE all lines of NAME run, one after the other, or, if NAME is
``table``, those that it lists for the GPUs of this host. A line is a program of ``tests.bench`` and
its arguments without TOKENIZER and RESULTS. A line that fails does not stop the next ones. Weak
scaling is printed if its lines have run.
"""

import importlib
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scripts.dev import results
from tests.bench import host

VISITS = Path(__file__).with_name("visits.yaml")
TABLE = "table"
"""Stands for the visit of as many GPUs as the host has."""
SCALING = "scaling-"
LAUNCHED = ("matrix", "saves", "rehearse")
"""Programs that go through the rendered JobSet, the local runner and the launcher."""
PROGRAMS = {
    "speed": "speed.command",
    "backends": "backends",
    "gradients": "gradients.command",
    **{name: f"launcher.{name}" for name in LAUNCHED},
}
"""Modules by the first word of a line."""


def names() -> list[str]:
    return [name for name in _read() if name != TABLE]


@cache
def _read() -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = yaml.safe_load(VISITS.read_text(encoding="utf-8"))
    return found


def lines(name: str) -> dict[str, list[str]]:
    """Return the words of each line of a visit."""
    if name not in (known := names()):
        raise ValueError(f"{name} is not a visit; write {TABLE} or {' or '.join(known)}")
    return {line: shlex.split(words) for line, words in _read()[name].items()}


def of_host(gpus: int) -> tuple[str, list[str]]:
    """Return the visit whose lines make up the table on a host, and these lines.

    >>> [of_host(gpus)[0] for gpus in (1, 3, 8)]
    ['1gpu', '2gpu', '4gpu']
    """
    table: dict[int, list[str]] = _read()[TABLE]
    fitting = [number for number in table if number <= gpus]
    if not fitting:
        raise ValueError(f"{TABLE} needs {min(table)} GPU and this host has {gpus}")
    return f"{max(fitting)}gpu", table[max(fitting)]


def command(name: str, line: str, tokenizer: str, results: str, words: Sequence[str]) -> list[str]:
    """Return the arguments of a line's program, which names its result by the label.

    >>> command("2gpu", "restart", "t", "r", ["matrix", "--gpus", "2"])
    ['t', 'r', '--label', 'restart-2gpu', '--gpus', '2']
    >>> command("4gpu", "gbs8", "t", "r", ["speed"])[-1]  # the result is bench-4gpu-gbs8
    '4gpu-gbs8'
    """
    label = f"{name}-{line}" if words[0] == "speed" else f"{line}-{name}"
    return [tokenizer, results, "--label", label, *words[1:]]


def scaling(rates: Mapping[int, float]) -> list[str]:
    """Return a sentence for each step of a weak scaling.

    ``rates``: tokens per second and GPU by the number of GPUs.

    >>> scaling({2: 1000.0, 4: 950.0})
    ['2 to 4 GPUs: 95.0 % of the tokens per second and GPU']
    """
    counts = sorted(rates)
    return [
        f"{few} to {many} GPUs: {rates[many] / rates[few]:.1%}".replace("%", " %")
        + " of the tokens per second and GPU"
        for few, many in zip(counts, counts[1:], strict=False)
    ]


def rates(folder: Path, name: str) -> dict[int, float]:
    """Return tokens per second per GPU of the weak scaling's results, by the number of GPUs."""
    return {
        record["gpus_used"]: run["tokens_per_second_per_gpu"]["median"]
        for record in results.read(folder, f"bench-{name}-{SCALING}").values()
        for run in record["runs"].values()
        if run.get("steps")
    }


def attempt(words: Sequence[str], given: Sequence[str]) -> int:
    """Run a line; return 1 if it raises, so that the next lines still run."""
    try:
        program = importlib.import_module(f"tests.bench.{PROGRAMS[words[0]]}")
        code: int = program.main(given)
    except Exception:
        traceback.print_exc()
        return 1
    return code


def main(words: Sequence[str]) -> int:
    """Run a visit; return the largest exit code of its lines."""
    if len(words) < 3:
        print("usage: python3 -m tests.bench visit NAME TOKENIZER RESULTS [LINE ...]")
        return 2
    name, tokenizer, folder, *only = words
    seen = len(host.about()["gpus"])
    try:
        if name == TABLE:
            name, listed = of_host(seen)
            only = only or listed
        chosen = lines(name)
    except ValueError as error:
        print(f"visit: {error}", file=sys.stderr)
        return 2
    if unknown := sorted(set(only) - set(chosen)):
        print(
            f"visit: {name} has no line {unknown[0]}; it has {', '.join(chosen)}", file=sys.stderr
        )
        return 2
    wanted = int(name.removesuffix("gpu"))
    if seen < wanted:
        print(f"visit: {name} needs {wanted} GPUs and this host has {seen}", file=sys.stderr)
        return 2
    codes = []
    for line in only or chosen:
        print(f"== {name} {line}", flush=True)
        codes.append(attempt(chosen[line], command(name, line, tokenizer, folder, chosen[line])))
    print("\n".join(scaling(rates(Path(folder), name))))
    return max(codes)

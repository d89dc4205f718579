"""``python -m tests.faults [--level process|cluster] [--seeds N] [--quick] [NAME...]``.

Injects faults and compares what happens with what is declared. Ends with 1 if a run differs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.dev.results import text
from scripts.helm import ROOT
from tests.e2e import chance
from tests.faults import catalogue
from tests.faults.catalogue import Fault

SEEDS = 3
WORKERS = 6
"""Runs at the same time; most of their time they wait."""
KILL_SECONDS = 60.0
"""Time beyond its deadline after which a run that does not end by itself is killed."""
ISOLATED = "unshare --mount --net --propagation private sh -c"
"""Program before a run: other runs then take none of its ports."""
IN_ISOLATION = 'ip link set lo up && exec "$0" "$@"'
COLUMNS = {
    "outcome": "outcome",
    "code": "exit",
    "failure_class": "class",
    "restarts": "restarts",
    "detect_seconds": "s to detect",
    "next_step_seconds": "s to next step",
    "lost_steps": "steps lost",
    "measured": "measured",
    "orphans": "orphans",
}


MEASURED = re.compile(r"^ *(\d+[.]\d) s  (.+)$", re.MULTILINE)
"""A line of the summary of tests/e2e: the seconds, from what to what."""
CHOSEN = re.compile(r"^chosen: (.+)$", re.MULTILINE)
"""Another one: rank and moment that a seed has chosen."""


def is_root() -> bool:
    """Return whether this process may make namespaces."""
    return os.geteuid() == 0 and all(map(shutil.which, ("unshare", "ip", "setpriv")))


def is_runnable(fault: Fault) -> bool:
    return is_root() or "root" not in fault.needs


def run(fault: Fault, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as folder:
        case = [sys.executable, "-m", "tests.faults.case", fault.name, str(seed), folder]
        words = [*ISOLATED.split(), IN_ISOLATION, *case] if is_root() else case
        process = subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            output, errors = process.communicate(timeout=fault.seconds + KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        kept = _logs(Path(folder))
    try:
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        problem = f"the case ended with {process.returncode}: {errors[-500:]}"
        found = {"name": fault.name, "seed": seed, "outcome": "error", "problems": [problem]}
    return {**found, "group": fault.group, "logs": kept if found["problems"] else ""}


def run_test(fault: Fault, seed: int) -> dict[str, Any]:
    """Run the test of tests/e2e that shows a fault of a cluster; its assertions judge."""
    begun = time.monotonic()
    words = [sys.executable, "-m", "pytest", "-q", "-n0", "--timeout", "900"]
    words.append(str(fault.inject["test"]))
    env = {**os.environ, chance.VARIABLE: str(seed)}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    passed, expect = done.returncode == 0, fault.expect
    return {
        "name": fault.name,
        "seed": seed,
        "group": fault.group,
        "outcome": expect.outcome if passed else "error",
        "code": int(expect.code) if passed and expect.code is not None else None,
        "failure_class": expect.failure_class or "" if passed else "",
        "restarts": expect.restarts if passed else "",
        "measured": measured(done.stdout),
        "chosen": CHOSEN.findall(done.stdout),
        "seconds": round(time.monotonic() - begun, 1),
        "problems": [] if passed else [f"its test ended with {done.returncode}"],
        "logs": "" if passed else done.stdout[-6000:],
    }


def measured(output: str) -> dict[str, float]:
    """Return the times that a session of tests/e2e measured: from the fault to what follows.

    >>> measured("= measured =\\n    9.4 s  a pod deleted: to all running\\n= 1 passed in 20.1 s =")
    {'a pod deleted: to all running': 9.4}
    """
    section = output.rpartition(" measured =")[2]
    return {what: float(seconds) for seconds, what in MEASURED.findall(section)}


def _logs(folder: Path) -> str:
    logs = sorted(folder.glob("pod-*.log"))
    return "\n".join(f"{p.name}:\n{p.read_text(errors='replace')[-3000:]}" for p in logs)


def run_all(
    faults: Sequence[Fault], seeds: Iterable[int], keep: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """Run each fault with each seed, several at a time; print each result as it comes.

    There is one cluster, so its faults are injected one after the other.
    """
    pairs = [(fault, seed) for fault in faults for seed in seeds]
    is_cluster = any(fault.level == "cluster" for fault in faults)
    act = run_test if is_cluster else run
    with ThreadPoolExecutor(1 if is_cluster else WORKERS) as pool:
        found = []
        for result in pool.map(lambda pair: act(*pair), pairs):
            found.append(result)
            state = "; ".join(result["problems"]) or result["outcome"]
            print(f"{result['name']} {result['seed']}: {state}", flush=True)
            keep(found)
    return found


def table(results: Sequence[dict[str, Any]]) -> Table:
    """Return a table with a row for each fault: all its runs, or what differs among them."""
    made = Table("fault", *COLUMNS.values(), "as declared", title="Fault matrix")
    for name in dict.fromkeys(each["name"] for each in results):
        runs = [each for each in results if each["name"] == name]
        cells = [_cell([each.get(key) for each in runs]) for key in COLUMNS]
        right = sum(not each["problems"] for each in runs)
        made.add_row(name, *cells, f"{right} of {len(runs)}")
    return made


def _cell(values: list[Any]) -> str:
    known = [value for value in values if value not in (None, "", {})]
    if not known:
        return ""
    if isinstance(known[0], dict):  # times by their name
        names = dict.fromkeys(name for each in known for name in each)
        return "; ".join(f"{n} {_cell([each.get(n) for each in known])} s" for n in names)
    if len(set(known)) > 1:
        if all(isinstance(value, int | float) for value in known):
            return f"{min(known)} to {max(known)}"
        return ", ".join(sorted(map(str, set(known))))
    return str(known[0])


def summary(results: Sequence[dict[str, Any]]) -> dict[str, int]:
    problems = [problem for each in results for problem in each["problems"]]
    return {
        "faults": len({each["name"] for each in results}),
        "runs": len(results),
        "as_declared": sum(not each["problems"] for each in results),
        "silent_successes": sum("silent success" in problem for problem in problems),
        "endless": sum(each["outcome"] in ("deadline", "error") for each in results),
        "orphans": sum(each.get("orphans", 0) for each in results),
    }


def main(words: list[str] | None = None) -> int:
    """Run faults; print the table; 1 if a run is not as declared."""
    parser = argparse.ArgumentParser("python -m tests.faults")
    parser.add_argument("names", nargs="*", help="all faults of the level by default")
    parser.add_argument("--level", choices=("process", "cluster"), default="process")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="the subset of `make test`")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(words)
    begun, console = time.monotonic(), Console(width=170)
    chosen = [
        each
        for each in catalogue.load(options.level)
        if (not options.names or each.name in options.names) and (each.quick or not options.quick)
    ]
    skipped = [each.name for each in chosen if not is_runnable(each)]

    def keep(results: list[dict[str, Any]]) -> None:
        if options.results:
            total = {**summary(results), "seconds": round(time.monotonic() - begun)}
            runs = [{k: v for k, v in each.items() if k != "logs"} for each in results]
            document = {"summary": total, "skipped": skipped, "runs": runs}
            options.results.write_text(text(document), encoding="utf-8")

    runnable = [each for each in chosen if is_runnable(each)]
    results = run_all(runnable, range(options.first_seed, options.first_seed + options.seeds), keep)
    console.print(table(results))
    for each in results:
        if each["problems"]:
            console.print(each["name"], each["seed"], each["problems"], each["logs"], markup=False)
    total = {**summary(results), "seconds": round(time.monotonic() - begun)}
    console.print(total, *(["not run, they need root:", *skipped] if skipped else []))
    return 0 if results and total["as_declared"] == total["runs"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""Measure profiles on this host's GPUs, one after the other, on the same model and data.

    python3 -m tests.bench speed TOKENIZER RESULTS --profile NAME:FILE,FILE,flag=value ...

TOKENIZER is a folder with a tokenizer; RESULTS gets ``bench-<label>``, rewritten after every run.
``features=none`` in a profile runs upstream with the same flags and without the launcher's plugins
(``profiles.py``).
"""

import argparse
import dataclasses
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from launchers.exits import LaunchError
from scripts.dev import results
from tests.bench import host
from tests.bench.model import pairs
from tests.bench.speed import options as bench_options
from tests.bench.speed import pass_rounds, table
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import Profile
from tests.bench.speed.run import inherited
from tests.bench.speed.shared import Bench

SHORTEST = 60
"""Minimum seconds left to start a run: imports and loading alone take as long."""
ROOM = 10
"""Seconds reserved for writing results and stopping."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 if a first loss or a self-report is wrong, 2 if it cannot start."""
    options, begun = bench_options.arguments(words), time.monotonic()
    about = host.about()
    try:
        profiles = bench_options.profiles(options)
        bench = bench_options.bench(options, about["gpus"])
        bench_options.refuse(bench, profiles)
    except (LaunchError, ValueError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    against = profiles[-1].name if options.against else None
    record = {
        **about,
        "layers": options.layers,
        "experts": options.experts,
        "gpus_used": bench.gpus,
        "card": bench.gpu.name,
        "against": against,
        "command": command(sys.argv[1:] if words is None else words, options),
        "prepared": prepare(bench, options),
    }
    return measure(bench, profiles, options, record, begun)


def command(words: Sequence[str], options: argparse.Namespace, module: str = "speed") -> str:
    places = {str(options.tokenizer): "TOKENIZER", str(options.results): "RESULTS"}
    given = [places.get(word, word) for word in words]
    return shlex.join(["python3", "-m", "tests.bench", module, *given])


def prepare(bench: Bench, options: argparse.Namespace) -> dict[str, float]:
    """Write model and data unless present; return the seconds of each."""
    took: dict[str, float] = {}
    bench.home.mkdir(parents=True, exist_ok=True)
    ready = bench.model / "READY"
    begin = time.monotonic()
    if not ready.exists():
        # a separate process: its CUDA contexts and caches must be gone when training begins
        module = [sys.executable, "-m", "tests.bench.model.random_model", str(bench.model)]
        words = ["--tokenizer", str(options.tokenizer.resolve())]
        words += ["--layers", str(options.layers), "--experts", str(options.experts)]
        subprocess.run([*module, *words], cwd=bench_profiles.ROOT, env=inherited(), check=True)
        ready.touch()
        took["model_s"] = round(time.monotonic() - begin, 1)
    begin = time.monotonic()
    if not bench.data.exists():
        usual = (pairs.PROMPT, pairs.ANSWER)
        sizes = usual if options.prompt is None else pairs.medians(options.prompt)
        pairs.write(bench.data, options.tokenizer, options.pairs, sizes=sizes)
        took["pairs_s"] = round(time.monotonic() - begin, 1)
    return took


def measure(
    bench: Bench,
    profiles: Sequence[Profile],
    options: argparse.Namespace,
    record: dict[str, Any],
    begun: float,
) -> int:
    """Run all profiles; write the record after each; print the table."""
    runs: dict[str, Any] = {}
    record["runs"] = runs
    label = options.label or profiles[0].name.replace("/", "_")
    traced, passes = options.trace.split(","), options.passes.split(",")
    for profile in profiles:
        name, left = profile.name, options.total - (time.monotonic() - begun)
        if left < SHORTEST:
            runs[name] = {"skipped": "no time left"}
            continue
        given = dataclasses.replace(bench, traced=name in traced, passes=name in passes)
        runs[name] = bench_run.run(given, profile, limit=min(options.limit, left - ROOM))
        results.put(options.results, f"bench-{label}", record)
        for trace in bench_run.run_folder(given, profile).glob("trace*.json.gz"):
            kind = trace.name.removesuffix(".json.gz")
            shutil.copy(trace, options.results / f"{kind}-{label}-{name}.json.gz")
        print(table.table({name: runs[name]}), runs[name]["tail"], sep="\n", flush=True)
    results.put(options.results, f"bench-{label}", record)
    print(table.table(runs))
    print(table.kernels(runs))
    print(pass_rounds.table(runs))
    if options.against:
        print(table.comparison(runs, profiles[-1].name))
    return verdict(runs)


def verdict(runs: dict[str, Any]) -> int:
    """Print the problems of the runs; return 1 if there are any."""
    wrong = 0
    for name, run in runs.items():
        report = run.get("self_report")
        if run.get("steps") and not run["first_loss"]["ok"]:
            print(f"{name}: the first loss is {run['first_loss']['first']}, not ln 2")
            wrong = 1
        if report is not None and not report["ok"]:
            print(f"{name}: metrics.jsonl and the formula differ: {report}")
            wrong = 1
        if run.get("steps") and run["profile"]["kept"] == [] and run["loaded"]:
            print(f"{name}: features=none, but {', '.join(run['loaded'])} were loaded")
            wrong = 1
    return wrong

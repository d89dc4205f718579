"""Measure profiles on this host's GPUs, one after the other, on the same model and data.

    python3 -m tests.gpu.bench TOKENIZER RESULTS --profile NAME:FILE,FILE,flag=value [--against ...]

TOKENIZER is a folder with a tokenizer; RESULTS gets ``bench-<label>.json``, rewritten after every
run. ``--start`` measures how long a run takes to its first step instead, with cold and with warm
caches of compiled kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launchers import cards, shape
from launchers.exits import LaunchError
from launchers.process import Stopped, raise_on_signals
from tests.gpu import bench_figures, bench_profile, bench_run, bench_table, pairs, random_model
from tests.gpu.bench_profile import Profile
from tests.gpu.bench_run import Bench
from tests.gpu.visit import host

HOME = Path("/data/bench")
SHORTEST = 60
"""Seconds below which a run is not begun: imports and loading alone take as long."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("tokenizer", type=Path)
    add("results", type=Path)
    add("--profile", action="append", required=True, help="NAME:FILE[,FILE][,flag=value]")
    add("--against", help="one more profile, which the others are compared with")
    add("--label", default="", help="of the result file; the first profile's name by default")
    add("--layers", type=int, default=48)
    add("--steps", type=int, default=30, help="that are measured, after the warm-up of 3")
    add("--pairs", type=int, default=12_000, help="of the data; six fill a pack of 8,192 tokens")
    add("--gpus", type=int, default=0, help="of this host; all by default")
    add("--limit", type=float, default=280, help="seconds of one run")
    add("--total", type=float, default=585, help="seconds of all runs")
    add("--start", action="store_true", help="measure the start, cold and warm")
    add("--home", type=Path, default=HOME, help="where model, data and runs lie on this host")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the bench; 1 when a first loss or a self-report is wrong, 2 when it can't begin."""
    options, begun = arguments(words), time.monotonic()
    raise_on_signals(lambda _: None)
    about = host()
    try:
        profiles = [bench_profile.parse(text) for text in _profiles(options)]
        gpus, card = _gpus(about["gpus"], options.gpus)
        bench = _bench(options, gpus, card)
        _refuse(bench, profiles)
    except (LaunchError, ValueError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    try:
        wrote = prepare(bench, options)
        record = {**about, "layers": options.layers, "gpus_used": gpus, "prepared": wrote}
        label = options.label or profiles[0].name.replace("/", "_")
        return measure(bench, profiles, options, record | {"label": label}, begun)
    except Stopped as stopped:
        return 128 + stopped.number


def _profiles(options: argparse.Namespace) -> list[str]:
    return [*options.profile, *filter(None, [options.against])]


def _gpus(seen: Sequence[str], wanted: int) -> tuple[int, str]:
    """Return how many GPUs are used, and the card's name.

    Raises:
        ValueError: there are too few.
    """
    if len(seen) < max(1, wanted):
        raise ValueError(f"this host has {len(seen)} GPUs and the bench needs {max(1, wanted)}")
    name = seen[0].split(",")[0].strip()
    card = cards.seen(name)
    if card is None:
        raise ValueError(f"{name} is not in launchers/cards.py: its peak is not known")
    return wanted or len(seen), card.name


def _shape(layers: int) -> random_model.Shape:
    return random_model.Shape(num_hidden_layers=layers)


def _bench(options: argparse.Namespace, gpus: int, card: str) -> Bench:
    return Bench(
        home=options.home,
        model=options.home / f"model-{options.layers}",
        data=options.home / f"pairs-{options.pairs}.jsonl",
        shape=shape.parse(random_model.config(_shape(options.layers))),
        card=cards.named(card),
        gpus=gpus,
        steps=1 if options.start else options.steps,
        warm_up=0 if options.start else bench_figures.WARM_UP,
    )


def _refuse(bench: Bench, profiles: Sequence[Profile]) -> None:
    """Refuse what can't be run before a minute of GPU time is spent.

    Raises:
        LaunchError, OSError: a profile's flags or file.
        ValueError: its layout, or two profiles have one name.
    """
    own = bench_run.own_flags(bench)
    for profile in profiles:
        parsed = bench_profile.recipe(profile.values(), own)
        bench_profile.refuse(parsed, bench.shape, bench.gpus)
    names = [profile.name for profile in profiles]
    if len(set(names)) < len(names):
        raise ValueError(f"two profiles have one name: {', '.join(names)}; write NAME:FILE")


def prepare(bench: Bench, options: argparse.Namespace) -> dict[str, float]:
    """Write model and data unless they are there; return the seconds that each took."""
    took: dict[str, float] = {}
    bench.home.mkdir(parents=True, exist_ok=True)
    ready = bench.model / "READY"
    begin = time.monotonic()
    if not ready.exists():
        random_model.write(bench.model, _shape(options.layers), options.tokenizer)
        ready.touch()
        took["model_s"] = round(time.monotonic() - begin, 1)
    begin = time.monotonic()
    if not bench.data.exists():
        pairs.write(bench.data, options.tokenizer, options.pairs)
        took["pairs_s"] = round(time.monotonic() - begin, 1)
    return took


def measure(
    bench: Bench,
    profiles: Sequence[Profile],
    options: argparse.Namespace,
    record: dict[str, Any],
    begun: float,
) -> int:
    """Run all profiles, writing the record after each; print the table."""
    runs: dict[str, Any] = {}
    record["runs"] = runs
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"bench-{record['label']}.json"
    caches = bench.home / "caches"
    for profile in profiles:
        for cold in (True, False) if options.start else (False,):
            name = profile.name + (" cold" if cold else " warm") * options.start
            left = options.total - (time.monotonic() - begun)
            if left < SHORTEST:
                runs[name] = {"skipped": "no time left"}
                continue
            used = bench.home / f"cold-{time.time():.0f}" if cold else caches
            runs[name] = bench_run.run(
                bench, profile, limit=min(options.limit, left - 10), caches=used
            )
            caches = used
            _write(path, record)
            print(bench_table.table({name: runs[name]}), flush=True)
            if runs[name]["tail"]:
                print(runs[name]["tail"], flush=True)
    _write(path, record)
    print(bench_table.starts(runs) if options.start else bench_table.table(runs))
    if options.against:
        print(bench_table.comparison(runs, profiles[-1].name))
    return _verdict(runs)


def _verdict(runs: dict[str, Any]) -> int:
    wrong = 0
    for name, run in runs.items():
        report = run.get("self_report")
        if run.get("steps") and not run["first_loss"]["ok"]:
            print(f"{name}: the first loss is {run['first_loss']['first']}, not ln 2")
            wrong = 1
        if report is not None and not report["ok"]:
            print(f"{name}: metrics.jsonl and the formula differ: {report}")
            wrong = 1
    return wrong


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

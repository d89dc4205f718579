"""Proof of learning: ``python3 -m tests.bench learning SOURCES RESULTS``.

SOURCES is the folder ``sources`` of ``tests.bench pack``: pairs from Python's docstrings,
those held out, and their tokenizer. Each side of ``learning.yaml`` trains the same small Qwen3-MoE
on the same pairs with each seed; a run uses two GPUs, or the only one; several run at once. A run's
checkpoint is scored on the held-out pairs by transformers in fp32 (``score.py``).
The result is rewritten after each run; exit code 1 unless every run of ours and
of upstream reaches the required accuracy and all figures are equivalent (``judge.py``).
"""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launchers.exits import LaunchError
from launchers.plan import model_config
from scripts.demo.sources import Sources
from scripts.dev import results
from tests.bench import host, side_by_side
from tests.bench.learning import data, judge, plan
from tests.bench.learning.equivalence import MOST
from tests.bench.learning.plan import Run
from tests.bench.model import random_model
from tests.bench.speed import command as bench_command
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import read as bench_read
from tests.bench.speed.shared import Bench

HOME = Path("/data/learning")
LEAD = 50.0
"""Head start of the first run in seconds, in which it compiles most kernels."""
TAIL = 6000
"""Characters of a failed run's log in the result."""
LOGGED = ("loss", "grad_norm", "rewards/accuracies", "rewards/margins", "load_balancing_loss")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench learning")
    add = parser.add_argument
    add("sources", type=Path, help="folder with pairs.jsonl, heldout.jsonl and model/ (tokenizer)")
    add("results", type=Path, help="folder of the result file")
    add("--label", default="", help="name of the result; learning-<N>gpu by default")
    add("--seeds", default="1,2,3,4,5", help="numbers, with commas between")
    add("--sides", default="", help="names of sides, with commas between; all by default")
    add("--change", action="append", default=[], help="KEY=VALUE: a flag or value of all sides")
    add("--steps", type=int, default=100)
    add("--at-once", type=int, default=10, help="runs at the same time")
    add("--limit", type=float, default=240, help="seconds of one run")
    add("--total", type=float, default=480, help="seconds of all; what has not begun does not run")
    add("--home", type=Path, default=HOME, help="where models, data and runs lie on this host")
    add("--caches", type=Path, default=bench_options.HOME / "caches", help="of compiled kernels")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run and compare; return 1 if the comparison fails, 2 if no run can start."""
    options, about = arguments(words), host.about()
    made = Sources(root=options.sources.resolve())
    try:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        if len(seeds) > MOST:
            raise ValueError(f"{len(seeds)} seeds; give at most {MOST}")
        changes = dict(bench_profiles.change(text) for text in options.change)
        bench = setting(options, made, about["gpus"])
        runs = plan.read(seeds, bench.gpus, list(filter(None, options.sides.split(","))), changes)
        plan.refuse(bench, runs)
    except (LaunchError, ValueError, OSError) as error:
        print(f"learning: {error}", file=sys.stderr)
        return 2
    shutil.rmtree(bench.home, ignore_errors=True)
    data.write(bench.home, made, seeds)
    given = sys.argv[1:] if words is None else words
    result = {
        **about,
        "command": said(given, options),
        "model": asdict(data.model_config(made)),
        "steps": bench.steps,
        "figures": [asdict(figure) for figure in judge.FIGURES],
        "runs": {},
    }
    train(bench, runs, options, made, result)
    print(judge.table(result["judged"]))
    return 0 if result["judged"]["passed"] else 1


def said(words: Sequence[str], options: argparse.Namespace) -> str:
    places = argparse.Namespace(tokenizer=options.sources, results=options.results)
    return bench_command.command(words, places, "learning").replace("TOKENIZER", "SOURCES")


def setting(options: argparse.Namespace, made: Sources, seen: Sequence[str]) -> Bench:
    """Return the settings that all runs share; model and pairs are those of a seed."""
    gpus = plan.gpus_of_run(len(seen))
    for path in (made.pairs, made.held_out):
        path.stat()
    files = data.of_seed(options.home, 0)
    return Bench(
        home=options.home,
        model=files.model,
        data=files.pairs,
        model_config=model_config.parse_config(random_model.config(data.model_config(made))),
        gpu=host.gpu_model(seen),
        gpus=gpus,
        steps=options.steps,
        warm_up=0,
    )


def train(
    bench: Bench,
    runs: Sequence[Run],
    options: argparse.Namespace,
    made: Sources,
    result: dict[str, Any],
) -> None:
    host_gpus, by_name = len(result["gpus"]), {run.name: run for run in runs}
    label = options.label or f"learning-{host_gpus}gpu"

    def after(name: str, end: side_by_side.Ended) -> None:
        result["runs"][name] = seen(bench, by_name[name], end)
        result["judged"] = judge.judge(result["runs"])
        results.put(options.results, label, result)

    side_by_side.run(
        [
            plan.command(
                bench,
                run,
                plan.gpus_of(run.number, host_gpus, bench.gpus),
                options.caches,
                made.held_out,
            )
            for run in runs
        ],
        at_once=options.at_once,
        limit=options.limit,
        total=options.total,
        lead=LEAD,
        after=after,
    )


def seen(bench: Bench, run: Run, end: side_by_side.Ended) -> dict[str, Any]:
    folder = plan.folder_of(bench, run)
    parsed = bench_profiles.recipe(run.profile.values(), bench.own_flags)
    ranks, log = bench_read.ranks(folder), bench_read.logged(folder)
    scored, text = folder / "score.json", folder / "log"
    finished = scored.exists() and len(log) >= bench.steps
    steps = ranks.steps()
    return {
        "side": run.side,
        "seed": run.seed,
        "finished": finished,
        "ended": f"{end.why} {end.code}",
        "seconds": end.seconds,
        "changes": dict(run.profile.changes),
        "kept": None if run.profile.kept is None else list(run.profile.kept),
        "features": run.profile.features(parsed),
        "loaded": sorted({name for who in ranks.who for name in who.get("launchers", ())}),
        "reference": parsed.reference,
        "pairs_per_step": [step.sequences // 2 for step in steps],
        "tokens": sum(step.tokens for step in steps),
        "log": {name: bench_read.columns(log).get(name, []) for name in LOGGED},
        **(json.loads(scored.read_text(encoding="utf-8")) if finished else {}),
        "tail": "" if finished or not text.exists() else text.read_text(errors="replace")[-TAIL:],
    }

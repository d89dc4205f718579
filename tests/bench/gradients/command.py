"""Gradients of one step compared with fp32: ``python3 -m tests.bench gradients TOKENIZER RESULTS``.

Each side of ``gradients.yaml`` runs one step of the same small Qwen3-MoE on the same 24 pairs, all
sides at once, and writes the gradients that its optimizer is given (the plugin
``swift_gradients_probe.py``). The loss of every side is the mean over the 24 pairs of DPO's loss
plus ``rpo_alpha`` times the mean loss of the chosen answer's tokens: ours has packs with equal pair
weights, upstream one pair per microbatch. ``exact`` is upstream in fp32; ``judge.py`` states the
test. The result has the errors of each parameter; exit code 1 if the test fails.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launchers.exits import LaunchError
from launchers.plan import model_config
from scripts.dev import results
from tests.bench import host, side_by_side
from tests.bench.gradients import data, errors, judge, plan
from tests.bench.model import random_model
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import Profile
from tests.bench.speed.shared import PLUGINS, Bench

HOME = Path("/data/gradients")
PROBE = PLUGINS / "swift_gradients_probe.py"
TAIL = 2500
"""Characters of a failed run's log in the result."""


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench gradients")
    add = parser.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the results")
    add("--label", default="", help="name of the result; gradients-<N>gpu by default")
    add("--only", default="", help="names of sides, separated by commas")
    add("--at-once", type=int, default=0, help="that run at the same time; by default by the cores")
    add("--limit", type=float, default=170, help="seconds of one")
    add("--total", type=float, default=240, help="seconds of all; what has not begun is left out")
    add("--home", type=Path, default=HOME, help="where model, data and runs lie on this host")
    add("--caches", type=Path, default=bench_options.HOME / "caches", help="of compiled kernels")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run and judge; return 1 if the test fails, 2 if no side can start."""
    options = arguments(words)
    about = host.about()
    try:
        sides = plan.read(len(about["gpus"]), list(filter(None, options.only.split(","))))
        bench = setting(options, about["gpus"])
        plan.refuse(bench, sides)
    except (LaunchError, ValueError, OSError) as error:
        print(f"gradients: {error}", file=sys.stderr)
        return 2
    data.prepare(bench, options.tokenizer)
    ended = side_by_side.run(
        [command(bench, side, number, options.caches) for number, side in enumerate(sides)],
        at_once=options.at_once or at_once(len(os.sched_getaffinity(0)), bench.gpus),
        limit=options.limit,
        total=options.total,
    )
    result = {**about, "gpus_used": bench.gpus, **conclude(bench, sides, ended)}
    results.put(options.results, options.label or f"gradients-{bench.gpus}gpu", result)
    print(judge.table(result["judged"]))
    return 0 if result["judged"]["passed"] else 1


def at_once(cores: int, gpus: int) -> int:
    """Return the number of concurrent runs: a rank uses one core to import, its helper another.

    >>> at_once(32, 2), at_once(4, 4)
    (8, 2)
    """
    return max(2, cores // (2 * gpus))


def setting(options: argparse.Namespace, seen: Sequence[str]) -> Bench:
    """Return the settings that all sides share."""
    return Bench(
        home=options.home,
        model=options.home / "model",
        data=options.home / "pairs.jsonl",
        model_config=model_config.parse_config(
            random_model.config(data.model_config(options.tokenizer))
        ),
        gpu=host.gpu_model(seen),
        gpus=len(seen),
        steps=plan.STEPS,
        warm_up=0,
    )


def folder_of(bench: Bench, side: Profile) -> Path:
    """Return a run's folder, in its own workspace, so that sides share no reference store."""
    return bench.home / side.name / "runs" / side.name


def command(bench: Bench, side: Profile, number: int, caches: Path) -> side_by_side.Command:
    """Return the command of a side as the launcher builds it, with the probe's plugin."""
    folder = folder_of(bench, side)
    words, env = bench_run.alone(bench, side, folder, number=number, caches=caches, probes=[PROBE])
    return side_by_side.Command(name=side.name, words=words, env=env, log=folder / "log")


def conclude(
    bench: Bench, sides: Sequence[Profile], ended: Mapping[str, side_by_side.Ended]
) -> dict[str, Any]:
    """Return the record: sides, the errors of their gradients, and the verdict."""
    runs = {each.name: _seen(bench, each, ended[each.name]) for each in sides}
    compared: dict[str, Any] = {}
    try:
        exact = errors.read(folder_of(bench, _side(sides, judge.EXACT)))
    except (ValueError, OSError) as error:
        if judge.EXACT in runs:
            runs[judge.EXACT]["why"] = str(error)
        exact = {}
    for side in sides if exact else ():
        try:
            own = errors.read(folder_of(bench, side))
            if side.name != judge.EXACT:
                compared[side.name] = errors.compare(own, exact)
        except (ValueError, OSError) as error:
            runs[side.name]["why"] = str(error)
    return {
        "model": asdict(data.MODEL_CONFIG) | {"vocab_size": bench.model_config.vocab},
        "pairs": [asdict(each) for each in data.CLASSES],
        "bounds": {"close": judge.CLOSE, "near": judge.NEAR, "scale": judge.SCALE},
        "judged": judge.judge(runs, compared),
        "runs": runs,
        "compared": {name: errors.columns(each) for name, each in compared.items()},
    }


def _side(sides: Sequence[Profile], name: str) -> Profile:
    """Return a side."""
    for side in sides:
        if side.name == name:
            return side
    raise ValueError(f"there is no side {name}")


def _seen(bench: Bench, side: Profile, end: side_by_side.Ended) -> dict[str, Any]:
    folder = folder_of(bench, side)
    log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    parsed = bench_profiles.recipe(side.values(), bench.own_flags)
    return {
        "changes": dict(side.changes),
        "kept": None if side.kept is None else list(side.kept),
        "features": side.features(parsed),
        "flags": parsed.args,
        "ended": f"{end.why} {end.code}",
        "seconds": end.seconds,
        "why": "",
        "ranks": errors.ranks(folder),
        "tail": "" if end.code == 0 else log[-TAIL:],
    }

"""Agreement of layouts and kernels: ``python3 -m tests.gpu.variants TOKENIZER RESULTS``.

Each line of ``variants.yaml`` trains the same random model on the same pairs for two steps with the
launcher's own flags, as many at once as the host's cores allow. RESULTS/variants-<N>gpu.json has
the differences of each one's log-probabilities from the base's; exit code 1 if one is above the
bound or did not run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launchers.config.rank import Place
from launchers.exits import LaunchError
from launchers.plan import model_config
from tests.gpu import host, record, side_by_side
from tests.gpu.bench import options as bench_options
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench import run as bench_run
from tests.gpu.bench.shared import PLUGINS, Bench
from tests.gpu.model import random_model
from tests.gpu.variants import data, judge, read
from tests.gpu.variants import plan as variants_plan
from tests.gpu.variants.data import PAIRS
from tests.gpu.variants.plan import BASE, Variant

HOME = Path("/data/variants")
PORT = 29600  # of the first variant; each variant has ten ports
LEAD = 40.0
"""Head start of the base in seconds: imports and most of the compilation."""
PROBES = tuple(PLUGINS / f"swift_{name}_probe.py" for name in ("reference", "variants"))
TAIL = 2500
"""Characters of a failed run's log in the result."""


def parser(name: str, home: Path, *, total: float) -> argparse.ArgumentParser:
    """Return the command line of a test that trains several sides, also for ``gradients``.

    Args:
        name: its package in ``tests.gpu``.
        home: default folder of model, data and runs.
        total: default seconds of all sides.
    """
    made = argparse.ArgumentParser(prog=f"python3 -m tests.gpu.{name}")
    add = made.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the result file")
    add("--only", default="", help="names, separated by commas; the base of variants runs anyway")
    add("--at-once", type=int, default=0, help="that run at the same time; by default by the cores")
    add("--limit", type=float, default=170, help="seconds of one")
    add("--total", type=float, default=total, help="seconds of all; what has not begun is left out")
    add("--home", type=Path, default=home, help="where model, data and runs lie on this host")
    add("--caches", type=Path, default=bench_options.HOME / "caches", help="of compiled kernels")
    return made


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    return parser("variants", HOME, total=185).parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run and compare; return 1 if a variant disagrees or did not run, 2 if none can start."""
    options = arguments(words)
    about = host.about()
    try:
        plan = variants_plan.read(len(about["gpus"]), list(filter(None, options.only.split(","))))
        bench = setting(options, about["gpus"])
        variants_plan.refuse(bench, plan)
    except (LaunchError, ValueError, OSError) as error:
        print(f"variants: {error}", file=sys.stderr)
        return 2
    ended = train(bench, plan, options)
    result = {**about, "gpus_used": bench.gpus, **conclude(bench, plan, ended)}
    record.write(options.results / f"variants-{bench.gpus}gpu.json", result)
    print(judge.table(result["variants"], result["runs"]))
    return 0 if result["passed"] else 1


def train(
    bench: Bench, plan: Sequence[Variant], options: argparse.Namespace
) -> dict[str, side_by_side.Ended]:
    """Write model and data, and train all variants."""
    data.prepare(bench, options.tokenizer)
    return side_by_side.run(
        [command(bench, each, number, options) for number, each in enumerate(plan)],
        at_once=options.at_once or at_once(len(os.sched_getaffinity(0)), bench.gpus),
        limit=options.limit,
        total=options.total,
        lead=LEAD,
    )


def at_once(cores: int, gpus: int) -> int:
    """Return the number of concurrent runs: a rank uses one core to import, its helper another.

    >>> at_once(32, 2), at_once(4, 4)
    (8, 2)
    """
    return max(2, cores // (2 * gpus))


def setting(options: argparse.Namespace, seen: Sequence[str]) -> Bench:
    """Return the settings that all variants share.

    Raises:
        ValueError: the GPU model is unknown.
        OSError: there is no tokenizer.
    """
    return Bench(
        home=options.home,
        model=options.home / "model",
        data=options.home / "pairs.jsonl",
        model_config=model_config.parse_config(
            random_model.config(data.model_config(options.tokenizer))
        ),
        gpu=host.gpu_model(seen),
        gpus=len(seen),
        steps=variants_plan.STEPS,
        warm_up=0,
    )


def folder_of(bench: Bench, variant: Variant) -> Path:
    """Return a run's folder, in its own workspace, so that variants share no reference store."""
    return bench.home / variant.name / "runs" / variant.name


def command(
    bench: Bench,
    variant: Variant,
    number: int,
    options: argparse.Namespace,
    probes: Sequence[Path] = PROBES,
) -> side_by_side.Command:
    """Return the command of a variant as the launcher builds it, with the probes' plugins."""
    folder = folder_of(bench, variant)
    (folder / "attempts" / "1").mkdir(parents=True)
    parsed = bench_profiles.recipe(variant.profile.values(), bench.own_flags)
    arguments = bench_run.flags(bench, parsed, folder, probes, kept=variant.profile.kept)
    port = PORT + 10 * number
    place = Place(rank=0, nodes=1, master_addr="127.0.0.1", master_port=port, source="single")
    words = bench_run.torchrun(bench, parsed, place, folder, arguments)
    env = bench_run.environment(bench, variant.profile, place, folder, options.caches)
    # per run: concurrent loads of the same rows would wait for each other
    env |= {"HF_DATASETS_CACHE": str(folder / "hf"), "MODELSCOPE_CACHE": str(folder / "ms")}
    return side_by_side.Command(name=variant.name, words=words, env=env, log=folder / "log")


def conclude(
    bench: Bench, plan: Sequence[Variant], ended: Mapping[str, side_by_side.Ended]
) -> dict[str, Any]:
    """Return the record: variants, figures and the verdict."""
    parsed = bench_profiles.recipe(plan[0].profile.values(), bench.own_flags)
    runs = {each.name: _seen(bench, each, ended[each.name]) for each in plan}
    beta = float(parsed.arg("beta", "0.1"))
    return {
        "model": asdict(data.MODEL_CONFIG) | {"gains": asdict(data.GAINS)},
        "flags": parsed.args | {"recipe.reference": parsed.reference},
        "env": bench_profiles.environment(plan[0].profile.values()),
        **{"base": BASE, "pairs": PAIRS, "beta": beta, "bound": judge.BOUND},
        **judge.judge(runs, BASE, PAIRS, beta),
        "runs": runs,
    }


def _seen(bench: Bench, variant: Variant, end: side_by_side.Ended) -> dict[str, Any]:
    folder = folder_of(bench, variant)
    log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    return {
        "changes": dict(variant.profile.changes),
        "own_kernels": variant.own_kernels,
        **{"why": end.why, "exit": end.code, "seconds": end.seconds},
        "tail": "" if end.code == 0 else log[-TAIL:],
        **read.run(folder),
    }

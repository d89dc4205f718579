"""Measure many flags in one start: variants are switched while the model runs.

    python3 -m tests.gpu.ablation TOKENIZER RESULTS --profile NAME:FILE,FILE,flag=value

``ablations.yaml`` lists them; RESULTS gets ``ablation-<label>.json``, rewritten after each variant,
and the traces. The weights stay constant (the learning rate is nearly zero), so each loss must be
ln 2: this detects a variant that changes the computation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launchers.exits import LaunchError
from tests.gpu import host
from tests.gpu.ablation import choice as ablation_choice
from tests.gpu.ablation import figures as ablation_figures
from tests.gpu.ablation import plan, run, table
from tests.gpu.ablation.plan import Choice
from tests.gpu.ablation.run import Ablation
from tests.gpu.ablation.steps import Count
from tests.gpu.bench import command as bench
from tests.gpu.bench import figures as bench_figures
from tests.gpu.bench import options as bench_options
from tests.gpu.bench.profiles import Profile
from tests.gpu.bench.shared import Bench

VARIANTS = Path(__file__).with_name("ablations.yaml")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line: the bench's, with fewer steps, and the selection of variants."""
    parser = bench_options.parser("ablation")
    add = parser.add_argument
    add("--variants", type=Path, default=VARIANTS, help="a file like ablations.yaml")
    add("--trace", default="", help="variants, or baseline, of which a step's trace is written")
    add("--with-starts", action="store_true", help="measure all of its starts too")
    # few pairs: the reference pass reads all of them; training repeats epochs
    parser.set_defaults(steps=3, warm_up=1, pairs=1500, limit=570)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run it; return 1 if a variant fails or changes the loss, 2 if it cannot start."""
    options, begun = arguments(words), time.monotonic()
    about = host.about()
    try:
        ablation = prepare(options, about, begun)
    except (LaunchError, ValueError, OSError) as error:
        print(f"ablation: {error}", file=sys.stderr)
        return 2
    given = sys.argv[1:] if words is None else words
    ablation.record["command"] = bench.command(given, options, "ablation")
    try:
        ablation.record["prepared"] = bench.prepare(ablation.bench, options)
        ablation.measure()
    finally:
        print(ablation.said(), flush=True)
    print(table.tops(ablation.rows))
    wrong = ablation_figures.wrong(ablation.rows)
    print("\n".join(wrong))
    return 1 if wrong else 0


def prepare(options: argparse.Namespace, about: dict[str, Any], begun: float) -> Ablation:
    """Return what will be measured; refuse the rest.

    Raises:
        LaunchError, ValueError, OSError: as the bench, or of the file of variants.
    """
    profiles = bench_options.profiles(options)
    if len(profiles) > 1:
        raise ValueError(f"{len(profiles)} profiles; write one --profile, which variants change")
    if min(options.steps, options.warm_up) < 1:
        raise ValueError("--steps and --warm-up must be 1 or more: a switch costs its first step")
    choice = chosen(options)
    given = bench_options.bench(options, about["gpus"])
    refuse(given, profiles[0], choice)
    options.results.mkdir(parents=True, exist_ok=True)
    label = options.label or profiles[0].name.replace("/", "_")
    first = max(options.warm_up, bench_figures.WARM_UP)
    return Ablation(
        bench=given,
        profile=profiles[0],
        choice=choice,
        count=Count(steps=options.steps, warm_up=options.warm_up, first=first),
        record={**about, **facts(options, given), "drift": {}, "runs": {}},
        path=options.results / f"ablation-{label}.json",
        limit=options.limit,
        stop=begun + options.total,
    )


def facts(options: argparse.Namespace, given: Bench) -> dict[str, Any]:
    """Return the record's fields about model and host."""
    model = {"layers": options.layers, "experts": options.experts}
    return {**model, "gpus_used": given.gpus, "card": given.gpu.name}


def chosen(options: argparse.Namespace) -> Choice:
    """Return the selection of the command line.

    Raises:
        ValueError, OSError: as ``plan``.
    """
    whole = plan.read(options.variants, options.layers)
    only, traced = (list(filter(None, each.split(","))) for each in (options.only, options.trace))
    part = ablation_choice.choose(whole, only, starts=options.with_starts)
    return ablation_choice.traced(part, traced)


def refuse(given: Bench, profile: Profile, choice: Choice) -> None:
    """Validate all flags, including those of all starts, before GPU time is spent.

    Raises:
        LaunchError, ValueError, OSError: as ``bench_options.refuse``.
    """
    changed = [run.changed(profile, start) for start in choice.starts]
    bench_options.refuse(run.with_callback(given, []), [profile, *changed])

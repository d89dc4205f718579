"""Command line of the bench, validated before GPU time is spent."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from launchers.plan import model_config
from tests.bench import host
from tests.bench.model import random_model
from tests.bench.speed import figures
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.profiles import Profile
from tests.bench.speed.shared import Bench

HOME = Path("/data/bench")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench speed")
    add = parser.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the results")
    add("--profile", action="append", default=[], help="NAME:FILE[,FILE][,flag=value]")
    add("--against", help="one more profile, which the others are compared with")
    add("--trace", default="", help="profiles, with commas, that run three profiled steps more")
    add("--passes", default="", help="profiles, with commas, whose reference pass is measured anew")
    add("--label", default="", help="of the result; the first profile's name by default")
    add("--layers", type=int, default=48)
    experts = random_model.Config.num_experts
    add("--experts", type=int, default=experts, help="of a layer: 32 on 1 GPU are 1 GPU of EP4")
    add("--steps", type=int, default=30, help="that are measured, after the warm-up")
    add("--warm-up", type=int, default=figures.WARM_UP, help="steps that are not measured")
    add("--pairs", type=int, default=12_000, help="of the data; six fill a pack of 8,192 tokens")
    add("--prompt", type=float, help="share of the prompt in a pair's tokens, the prompt once")
    add("--gpus", type=int, default=0, help="of this host; all by default")
    add("--first-gpu", type=int, default=0, help="of several runs at once, each with its --home")
    add("--limit", type=float, default=280, help="seconds of one run")
    add("--total", type=float, default=585, help="seconds of all runs")
    add("--home", type=Path, default=HOME, help="where model, data and runs lie on this host")
    return parser.parse_args(words)


def profiles(options: argparse.Namespace) -> list[Profile]:
    """Return the profiles in the order in which they run; ``--against`` is the last."""
    found = [bench_profiles.parse(text) for text in options.profile]
    found += [bench_profiles.parse(options.against)] if options.against else []
    names = [profile.name for profile in found]
    if not found:
        raise ValueError("nothing to run; write --profile")
    for given, verb in ((options.trace, "trace"), (options.passes, "measure the pass of")):
        if unknown := sorted(set(filter(None, given.split(","))) - set(names)):
            raise ValueError(f"no profile {unknown[0]} to {verb}; write {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"two profiles have one name: {', '.join(names)}; write NAME:FILE")
    return found


def bench(options: argparse.Namespace, seen: Sequence[str]) -> Bench:
    """Return the settings that all runs share.

    ``seen``: the host's GPUs, as nvidia-smi lists them.
    """
    wanted = options.first_gpu + max(1, options.gpus)
    if len(seen) < wanted:
        raise ValueError(f"this host has {len(seen)} GPUs and the bench needs {wanted}")
    return Bench(
        home=options.home,
        model=options.home / model_name(options.layers, options.experts),
        data=options.home / f"pairs-{options.pairs}{shares(options.prompt)}.jsonl",
        model_config=model_config.parse_config(random_model.config(random_config(options))),
        gpu=host.gpu_model(seen),
        gpus=options.gpus or len(seen) - options.first_gpu,
        first_gpu=options.first_gpu,
        steps=options.steps,
        warm_up=options.warm_up,
    )


def shares(prompt: float | None) -> str:
    """Return the end of the name of a file of pairs; the usual prompts have none.

    >>> shares(None), shares(0.4)
    ('', '-prompt-0.4')
    """
    return "" if prompt is None else f"-prompt-{prompt:g}"


def random_config(options: argparse.Namespace) -> random_model.Config:
    return random_model.Config(num_hidden_layers=options.layers, num_experts=options.experts)


def model_name(layers: int, experts: int) -> str:
    """Return the folder of a random model.

    >>> model_name(48, 128), model_name(8, 32)
    ('model-48', 'model-8-32-experts')
    """
    usual = experts == random_model.Config.num_experts
    return f"model-{layers}" if usual else f"model-{layers}-{experts}-experts"


def refuse(bench: Bench, chosen: Sequence[Profile]) -> None:
    """Refuse profiles that cannot run."""
    own = bench.own_flags
    for profile in chosen:
        parsed = bench_profiles.recipe(profile.values(), own)
        bench_profiles.refuse(parsed, bench.model_config, bench.gpus)
        bench_profiles.refuse_kept(profile, parsed)

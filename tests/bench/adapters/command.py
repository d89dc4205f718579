"""Stacked adapters against one weight an expert: ``python3 -m tests.bench adapters ...``.

    python3 -m tests.bench adapters TOKENIZER RESULTS --profile FILE,FILE[,flag=value]

A few layers of the real widths train some steps and save in the middle, twice with a weight for
each expert (``single``, ``again``), whose differences show what the GPU's kernels do not repeat,
and once with stacks. Then ``converted`` resumes the checkpoint of ``single`` with stacks and
``resumed`` that of ``stacked``. ``upstream`` is ms-swift without our code. The gradients of the
last step, the losses and the exported adapters are compared. Exit code 1 if stacks differ by more
than ``NEAR`` times what ``again`` does, and by more than ``SAME``.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from launchers.config.flag_value import Value
from launchers.exits import LaunchError
from scripts.dev import results
from tests.bench import host, side_by_side
from tests.bench.gradients import errors
from tests.bench.speed import command as speed
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import Profile
from tests.bench.speed.shared import PLUGINS, Bench, resumable_flags

STEPS, SAVED = 6, 3
"""Steps of a run, and the one that is saved."""
NEAR, SAME = 1.5, 1e-6
OURS = "-background_save", "-safetensors_last", "-merge_last"
"""Features that are left out: a probe ends the run before the last save."""
SINGLE = (*OURS, "-stacked_adapters")
FIRST: Mapping[str, tuple[str, ...]] = {"single": SINGLE, "again": SINGLE, "stacked": OURS}
THEN = {"converted": "single", "resumed": "stacked"}
ALONE = {"recipe.reference": "online", "moe_token_dispatcher_type": "alltoall"}
PROBE = PLUGINS / "swift_gradients_probe.py"
TAIL = 2500


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench adapters")
    add = parser.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the results")
    add("--profile", required=True, help="FILE[,FILE][,flag=value]")
    add("--label", default="", help="of the result")
    add("--layers", type=int, default=2)
    add("--experts", type=int, default=128)
    add("--pairs", type=int, default=1500)
    add("--at-once", type=int, default=2, help="runs on the GPUs at the same time")
    add("--limit", type=float, default=150, help="seconds of one run")
    add("--total", type=float, default=400, help="seconds of all")
    add("--home", type=Path, default=bench_options.HOME, help="of model, data and runs")
    parser.set_defaults(prompt=None)  # pairs of the usual length
    return parser.parse_args(words)


def setting(options: argparse.Namespace, seen: Sequence[str]) -> Bench:
    """Return the settings that all runs share.

    Raises:
        ValueError: there are no GPUs, or the model is unknown.
    """
    given = argparse.Namespace(**vars(options), gpus=0, steps=STEPS, warm_up=0)
    return bench_options.bench(given, seen)


def side(base: Profile, name: str, kept: tuple[str, ...] | None) -> Profile:
    """Return the profile of a run."""
    changes = dict(base.changes) | (ALONE if kept == () else {})
    return dataclasses.replace(base, name=name, kept=kept, changes=changes)


def sides(options: argparse.Namespace) -> dict[str, Profile]:
    """Return the profiles of all runs by name.

    Raises:
        ValueError: the profile names no file, or an unknown feature.
    """
    base = bench_profiles.parse(options.profile)
    kept = {**FIRST, "upstream": (), **dict.fromkeys(THEN, OURS)}
    return {name: side(base, name, each) for name, each in kept.items()}


def folder_of(bench: Bench, name: str) -> Path:
    """Return a run's folder, in a workspace of its own, so that runs share no reference store."""
    return bench.home / "adapters" / name / "runs" / name


def flags(bench: Bench, name: str) -> dict[str, Value]:
    """Return the flags of a run that override its profile's; one that resumes reads another's."""
    over: dict[str, Value] = {
        key: str(value).lower()
        for key, value in resumable_flags(STEPS, SAVED).items()
        if value is not None
    }
    over["merge_lora"] = "false"
    if source := THEN.get(name):
        over["mcore_adapter"] = str(folder_of(bench, source) / "out" / f"checkpoint-{SAVED}")
        over |= {"finetune": "false", "no_load_optim": "false", "no_load_rng": "false"}
    return over


def command(bench: Bench, profile: Profile, number: int) -> side_by_side.Command:
    """Return the command of a run."""
    folder = folder_of(bench, profile.name)
    words, env = bench_run.alone(
        bench,
        profile,
        folder,
        number=number,
        caches=bench.home / "caches",
        probes=[PROBE],
        over=flags(bench, profile.name),
    )
    return side_by_side.Command(name=profile.name, words=words, env=env, log=folder / "log")


def main(words: Sequence[str]) -> int:
    """Run and compare; return 1 if stacks differ, 2 if nothing can start."""
    options, about = arguments(words), host.about()
    try:
        bench, profiles = setting(options, about["gpus"]), sides(options)
        bench_options.refuse(bench, [*profiles.values()])
    except (LaunchError, ValueError, OSError) as error:
        print(f"adapters: {error}", file=sys.stderr)
        return 2
    speed.prepare(bench, options)
    shutil.rmtree(bench.home / "adapters", ignore_errors=True)
    begun = time.monotonic()
    ended: dict[str, side_by_side.Ended] = {}
    for names in ([*FIRST, "upstream"], [*THEN]):
        ended |= side_by_side.run(
            [command(bench, profiles[name], [*profiles].index(name)) for name in names],
            at_once=options.at_once,
            limit=options.limit,
            total=options.total - (time.monotonic() - begun),
        )
    record = {**about, "gpus_used": bench.gpus, **conclude(bench, ended)}
    results.put(options.results, f"adapters-{options.label or bench.gpus}", record)
    print(json.dumps({key: record[key] for key in ("wrong", "apart", "exported")}, indent=1))
    return 1 if record["wrong"] else 0


def conclude(bench: Bench, ended: Mapping[str, side_by_side.Ended]) -> dict[str, Any]:
    """Return the record: each run, its differences from ``single``, and what is wrong."""
    runs = {name: _seen(folder_of(bench, name), each) for name, each in ended.items()}
    found: dict[str, errors.Gradients] = {}
    for name in runs:
        try:
            found[name] = errors.read(folder_of(bench, name))
        except (ValueError, OSError) as error:
            runs[name]["why"] = str(error)
    apart = {
        name: distance(found[name], found["single"])
        for name in found
        if "single" in found and name != "single"
    }
    saved = f"out/checkpoint-{SAVED}"
    exported: Any = importlib.import_module("tests.bench.adapters.exported")  # it needs torch
    files = {
        name: exported.compare(folder_of(bench, "single") / saved, folder_of(bench, name) / saved)
        for name in ("again", "stacked")
    }
    return {"runs": runs, "apart": apart, "exported": files, "wrong": wrong(runs, apart, files)}


def distance(own: errors.Gradients, right: errors.Gradients) -> dict[str, float]:
    """Return the relative difference of all gradients as one vector, and the number of equal ones.

    >>> one = {"a": np.array([3.0, 4.0], np.float32)}
    >>> distance(one, one)
    {'difference': 0.0, 'equal': 1, 'parameters': 1}
    """
    rows = errors.compare(own, right)
    norm = math.fsum(row["exact"] ** 2 for row in rows.values())
    return {
        "difference": math.sqrt(math.fsum(row["error"] ** 2 for row in rows.values()) / norm),
        "equal": sum(np.array_equal(own[name], right[name]) for name in right),
        "parameters": len(rows),
    }


def wrong(
    runs: Mapping[str, Any], apart: Mapping[str, Mapping[str, float]], files: Mapping[str, Any]
) -> list[str]:
    """Return what does not hold."""
    said = [
        f"{name}: {run['ended']} {run['why']}"
        for name, run in runs.items()
        if run["ended"] != "exited 0" or run["why"]
    ]
    bound = max(SAME, NEAR * apart.get("again", {}).get("difference", 0.0))
    for name in ("stacked", *THEN):
        seen = apart.get(name, {}).get("difference", math.nan)
        if not seen <= bound:
            said.append(f"{name}: gradients differ by {seen:.2e}, more than {bound:.2e}")
    room = max(SAME, NEAR * files["again"].get("difference", 0.0))
    if files["stacked"].get("why") or not files["stacked"]["difference"] <= room:
        said.append(f"stacked: exported adapters differ: {files['stacked']}")
    return said


def _seen(folder: Path, end: side_by_side.Ended) -> dict[str, Any]:
    log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    index = [path.stat().st_size for path in folder.glob("out/*/iter_*/.metadata")]
    return {
        "ended": f"{end.why} {end.code}",
        "seconds": end.seconds,
        "why": "",
        "ranks": errors.ranks(folder),
        "losses": [line for line in log.splitlines() if "{'loss'" in line][-STEPS:],
        "bytes_of_index": index,
        "tail": "" if end.code == 0 else log[-TAIL:],
    }

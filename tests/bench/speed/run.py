"""One run of the bench: a profile directly through torchrun, with the launcher's own flags."""

import dataclasses
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.config.flag_value import Value
from launchers.config.rank import Place
from launchers.config.recipe import Recipe
from launchers.flags import command_line, features
from launchers.flags.command_line import Inputs
from launchers.preflight.gang_probes import free_port
from launchers.reference.run_store import recorded, stores
from launchers.run import kernel_cache
from launchers.system.ms_swift import swift_folder
from tests.bench import host, session
from tests.bench.speed import figures, pass_rounds, read
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.gpu_state import Sampler
from tests.bench.speed.profiles import ROOT, Profile
from tests.bench.speed.shared import PLUGINS, Bench

LAUNCHERS = ROOT / "launchers"
PROBE, TRACER = PLUGINS / "swift_probe.py", PLUGINS / "swift_trace.py"
PASSES = PLUGINS / "swift_pass.py"
PORT = 29600
"""Port of the first of several trainings at once."""
TAIL = 2500
"""Characters of a failed run's log that the result keeps."""
LOG_LAG = 5.0
"""Seconds to wait for the trainer's log, which a thread writes."""
OUT_OF_MEMORY = "OutOfMemoryError"


def flags(
    bench: Bench,
    parsed: Recipe,
    folder: Path,
    probes: Sequence[Path] = (PROBE,),
    kept: Sequence[str] | None = None,
) -> dict[str, Value]:
    """Return the flags as the launcher would write them, with the probe added to its plugins.

    ``kept``: the launcher's features that are installed; None for all that the recipe needs.
    """
    inputs = Inputs(model=bench.model, mcore=None, datasets=(str(bench.data),), clone=None)
    arguments = command_line.training_flags(
        parsed, inputs, output_dir=folder / "out", resume=None, on_cpu=False
    )
    plugins, callbacks = arguments["external_plugins"], arguments["callbacks"]
    assert isinstance(plugins, list) and isinstance(callbacks, list)
    if kept is not None:  # the bench has removed the user's own
        plugins = plugins if kept else []
        own = (each.callback for each in features.FEATURES if each.name in kept)
        callbacks = [*filter(None, own)]
    tracers = [TRACER] if bench.traced else []
    return {
        **arguments,
        "external_plugins": [*plugins, *map(str, (*probes, *tracers))],
        # first: work of the others after a step is part of the next step's time
        "callbacks": ["bench_probe", *("trace" for _ in tracers), *callbacks],
    }


def place(port: int) -> Place:
    return Place(rank=0, nodes=1, master_addr="127.0.0.1", master_port=port, source="single")


def torchrun(
    bench: Bench, parsed: Recipe, place: Place, folder: Path, arguments: Mapping[str, Value]
) -> list[str]:
    """Return the torchrun command with these flags; the ranks' logs are in the run's folder."""
    program = [str(command_line.program(parsed, swift_folder())), *command_line.flatten(arguments)]
    logs, python = folder / "ranks", sys.executable
    return command_line.torchrun(
        place, nproc=bench.gpus, log_dir=logs, python=python, program=program
    )


def inherited() -> dict[str, str]:
    """Return this process's environment with the host's settings."""
    path = [host.ENV["PYTHONPATH"], *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, **host.ENV, "PYTHONPATH": ":".join(path)}


def environment(
    bench: Bench, profile: Profile, place: Place, folder: Path, caches: Path
) -> dict[str, str]:
    """Return the environment of the training processes: the launcher's and the probe's."""
    values = profile.values()
    parsed = bench_profiles.recipe(values, bench.own_flags)
    installed = profile.features(parsed)
    given = {**inherited(), **bench_profiles.environment(values)}
    inside = command_line.environment(given, place, nproc=bench.gpus, package=LAUNCHERS)
    kernels = kernel_cache.variables(
        caches,
        inside,
        run=folder.name,
        warm=caches.exists(),
        cores=len(os.sched_getaffinity(0)),
        nproc=bench.gpus,
    )
    return {
        **inside,
        **kernels,
        **({features.VARIABLE: ",".join(installed)} if installed else {}),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, bench.own_gpus)),
        "DPO_RUN_FOLDER": str(folder),
        "DPO_ATTEMPT_FOLDER": str(folder / "attempts" / "1"),
        "PROBE": str(folder),
        "PROBE_PARENT": str(os.getpid()),
        "TRACE_FROM": str(bench.counted + 1),
    }


def alone(
    bench: Bench,
    profile: Profile,
    folder: Path,
    *,
    number: int,
    caches: Path,
    probes: Sequence[Path] = (PROBE,),
    over: Mapping[str, Value] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of one of several trainings that run at once."""
    (folder / "attempts" / "1").mkdir(parents=True)
    parsed = bench_profiles.recipe(profile.values(), bench.own_flags)
    own = None if profile.kept is None else profile.features(parsed)
    given = {**flags(bench, parsed, folder, probes, kept=own), **(over or {})}
    env = environment(bench, profile, place(PORT + 10 * number), folder, caches)
    # concurrent loads of the same rows would wait for each other
    env |= {"HF_DATASETS_CACHE": str(folder / "hf"), "MODELSCOPE_CACHE": str(folder / "ms")}
    return torchrun(bench, parsed, place(PORT + 10 * number), folder, given), env


def run_folder(bench: Bench, profile: Profile) -> Path:
    return bench.home / "runs" / profile.name.replace("/", "_")


def run(bench: Bench, profile: Profile, *, limit: float) -> dict[str, Any]:
    """Train; return flags, reason of the end and all figures."""
    values = profile.values()
    parsed = bench_profiles.recipe(values, bench.own_flags)
    folder = run_folder(bench, profile)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "attempts" / "1").mkdir(parents=True)
    at = place(free_port())
    own = None if profile.kept is None else profile.features(parsed)
    if bench.passes:
        shutil.rmtree(stores(folder), ignore_errors=True)
    probes = (PROBE, PASSES) if bench.passes else (PROBE,)
    given = flags(bench, parsed, folder, probes, kept=own)
    command = torchrun(bench, parsed, at, folder, given)
    env = environment(bench, profile, at, folder, bench.home / "caches")
    sampler, began = Sampler(gpus=bench.own_gpus), time.time()
    why, code = session.run(
        command,
        env,
        folder / "log",
        limit=limit,
        done=lambda: _is_done(folder, bench.iterations),
        look=sampler.look,
    )
    kept = None if profile.kept is None else list(profile.kept)
    return {
        "profile": {"files": [*profile.files], "changes": dict(profile.changes), "kept": kept},
        "ended": why,
        "exit": code,
        **measured(bench, parsed, folder, began, sampler),
        "reference": parsed.reference,
        "features": profile.features(parsed),
        "flags": given,
        "env": bench_profiles.environment(values),
        "command": shlex.join(command),
    }


def measured(
    bench: Bench, parsed: Recipe, folder: Path, began: float, sampler: Sampler
) -> dict[str, Any]:
    """Return all figures from a run's folder; ``began`` is its start."""
    training = bench_profiles.job(parsed, bench.gpus)
    whole = read.ranks(folder)
    seen = dataclasses.replace(whole, rows=[rows[: bench.counted] for rows in whole.rows])
    log, steps = read.logged(folder), seen.steps()
    rows = [row for path in folder.rglob("metrics.jsonl") for row in read.lines(path)]
    text = (folder / "log").read_text(encoding="utf-8", errors="replace")
    finished = whole.complete >= bench.iterations
    found = figures.figures(steps, bench.model_config, training, bench.gpu, bench.warm_up)
    rate = found.get("overall", {}).get("tokens_per_second_per_gpu")
    return {
        "finished": finished,
        "out_of_memory": OUT_OF_MEMORY in text,
        "wall_s": round(time.time() - began, 1),
        "world": bench.gpus,
        "loaded": sorted({name for who in seen.who for name in who.get("launchers", ())}),
        **found,
        **read.left_out(folder),
        "reference_pass": figures.reference_pass(recorded(folder), rate),
        "pass_rounds": pass_rounds.of(folder, recorded(folder), rate),
        **figures.memory(seen),
        "start": figures.start(seen, began),
        "first_loss": figures.oracle(log, parsed.arg("rpo_alpha") not in ("", "0")),
        "load_balancing_loss": figures.balance(log),
        "self_report": figures.self_report(rows, steps, bench.model_config, training, bench.gpu),
        "metrics": figures.product(rows, bench.warm_up),
        "kernels": [json.loads(path.read_text()) for path in sorted(folder.glob("kernels-*.json"))],
        "each_step": read.columns([dataclasses.asdict(step) for step in steps]),
        "log": read.columns(log),
        "tail": "" if finished else text[-TAIL:],
        "gpu": sampler.summary(*measured_between(bench, seen)),
    }


def measured_between(bench: Bench, ranks: read.Ranks) -> tuple[float, float]:
    """Return begin and end (Unix) of the steps that are measured, on the first rank."""
    times = [row["time"] for row in ranks.rows[0]] if ranks.rows else []
    first = times[: bench.warm_up][-1:]
    return (first[0], times[-1]) if first else (0.0, 0.0)


def _is_done(folder: Path, iterations: int) -> bool:
    """Return whether all ranks have finished the last step and the log had time to be written."""
    seen = read.ranks(folder)
    if seen.complete < iterations:
        return False
    ended = max(rows[-1]["time"] for rows in seen.rows)
    return len(read.logged(folder)) >= iterations or time.time() - ended > LOG_LAG

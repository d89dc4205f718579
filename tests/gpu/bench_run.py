"""One run of the bench: a profile straight through torchrun, with the launcher's own flags."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers import argv, jit_cache
from launchers.argv import Inputs
from launchers.cards import Card
from launchers.preflight_port import free_port
from launchers.rank import Place
from launchers.recipe import Recipe, Value
from launchers.shape import Shape
from launchers.swift import swift_folder
from tests.gpu import bench_figures, bench_profile, bench_read, session
from tests.gpu.bench_profile import ROOT, Profile
from tests.gpu.gpu_state import Sampler
from tests.gpu.pack import HOST_ENV

LAUNCHERS = ROOT / "launchers"
PROBE = Path(__file__).with_name("swift_probe.py")
TAIL = 2500
"""Characters of a failed run's log that the result keeps."""
LOG_LAG = 5.0
"""Seconds that the trainer's log, which a thread writes, may come late."""
OUT_OF_MEMORY = "OutOfMemoryError"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all runs of one go share."""

    home: Path
    """Folder of models, data and runs on the host."""
    model: Path
    data: Path
    shape: Shape
    card: Card
    gpus: int
    steps: int
    """Steps that are measured, after the warm-up."""
    warm_up: int = bench_figures.WARM_UP

    @property
    def iterations(self) -> int:
        """Return the steps that are run."""
        return self.steps + self.warm_up


def own_flags(bench: Bench) -> dict[str, Any]:
    """Return the flags that the bench sets over every profile's."""
    return {
        "train_iters": bench.iterations,
        "save_steps": 1_000_000,
        "save_total_limit": None,
        "no_save_optim": True,
        "no_save_rng": True,
        "logging_steps": 1,
        "split_dataset_ratio": 0,
        "ddp_timeout": 600,
        "load_from_cache_file": True,
    }


def flags(
    bench: Bench, parsed: Recipe, folder: Path, probes: Sequence[Path] = (PROBE,)
) -> dict[str, Value]:
    """Return the flags as the launcher would write them, with the probe beside its plugins."""
    inputs = Inputs(
        model=bench.model, mcore=None, datasets=(str(bench.data),), clone=None, plugins=LAUNCHERS
    )
    spelt = argv.training_flags(
        parsed, inputs, output_dir=folder / "out", resume=None, on_cpu=False
    )
    plugins, callbacks = spelt["external_plugins"], spelt["callbacks"]
    assert isinstance(plugins, list) and isinstance(callbacks, list)
    return {
        **spelt,
        "external_plugins": [*plugins, *map(str, probes)],
        # first: what the others do after a step is part of the next one's time
        "callbacks": ["probe", *callbacks],
    }


def inherited() -> dict[str, str]:
    """Return this process's environment with what a GPU host of ours needs."""
    path = [HOST_ENV["PYTHONPATH"], *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, **HOST_ENV, "PYTHONPATH": ":".join(path)}


def environment(
    bench: Bench, values: Mapping[str, Any], place: Place, folder: Path, caches: Path
) -> dict[str, str]:
    """Return the training processes' environment: the launcher's, and where to measure."""
    given = {**inherited(), **bench_profile.environment(values)}
    inside = argv.environment(given, place, nproc=bench.gpus, package=LAUNCHERS)
    kernels = jit_cache.variables(
        caches,
        inside,
        warm=caches.exists(),
        cores=len(os.sched_getaffinity(0)),
        nproc=bench.gpus,
        bytecode=jit_cache.has_bytecode(),
    )
    return {
        **inside,
        **kernels,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(bench.gpus))),
        "TRAINING_HOME": str(folder),
        "TRAINING_ATTEMPT": str(folder / "attempts" / "1"),
        "PROBE": str(folder),
        "PROBE_PARENT": str(os.getpid()),
    }


def run(
    bench: Bench, profile: Profile, *, limit: float, caches: Path | None = None
) -> dict[str, Any]:
    """Train; return flags, how it ended and all figures.

    Raises:
        LaunchError: the profile's flags are refused.
    """
    values = profile.values()
    parsed = bench_profile.recipe(values, own_flags(bench))
    training = bench_profile.job(parsed, bench.gpus)
    folder = bench.home / "runs" / profile.name.replace("/", "_")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "attempts" / "1").mkdir(parents=True)
    place = Place(
        rank=0, nodes=1, master_addr="127.0.0.1", master_port=free_port(), source="single"
    )
    spelt = flags(bench, parsed, folder)
    program = [str(argv.program(parsed, swift_folder())), *argv.flatten(spelt)]
    command = argv.torchrun(
        place, nproc=bench.gpus, log_dir=folder / "ranks", python=sys.executable, program=program
    )
    env = environment(bench, values, place, folder, caches or bench.home / "caches")
    sampler, began = Sampler(), time.time()
    why, code = session.run(
        command,
        env,
        folder / "log",
        limit=limit,
        done=lambda: _is_done(folder, bench.iterations),
        look=sampler.look,
    )
    seen = bench_read.ranks(folder)
    log, steps = bench_read.logged(folder), seen.steps()
    rows = [row for path in folder.rglob("metrics.jsonl") for row in bench_read.lines(path)]
    text = (folder / "log").read_text(encoding="utf-8", errors="replace")
    finished = seen.complete >= bench.iterations
    return {
        "profile": {"files": list(profile.files), "changes": dict(profile.changes)},
        "ended": why,
        "exit": code,
        "finished": finished,
        "out_of_memory": OUT_OF_MEMORY in text,
        "wall_s": round(time.time() - began, 1),
        "world": bench.gpus,
        **bench_figures.figures(steps, bench.shape, training, bench.card, bench.warm_up),
        **bench_figures.memory(seen),
        "start": bench_figures.start(seen, began),
        "first_loss": bench_figures.oracle(log, parsed.arg("rpo_alpha") not in ("", "0")),
        "load_balancing_loss": bench_figures.balance(log),
        "self_report": bench_figures.self_report(rows, steps, bench.shape, training, bench.card),
        "metrics": bench_figures.product(rows, bench.warm_up),
        "gpu": sampler.summary(),
        "reference": parsed.reference,
        "flags": spelt,
        "env": bench_profile.environment(values),
        "command": shlex.join(command),
        "each_step": _columns([dataclasses.asdict(step) for step in steps]),
        "log": _columns(log),
        "tail": "" if finished else text[-TAIL:],
    }


def _is_done(folder: Path, iterations: int) -> bool:
    """Tell whether all ranks have ended the last step; the log is given a moment to be written."""
    seen = bench_read.ranks(folder)
    if seen.complete < iterations:
        return False
    ended = max(rows[-1]["time"] for rows in seen.rows)
    return len(bench_read.logged(folder)) >= iterations or time.time() - ended > LOG_LAG


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns: a quarter of the bytes."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}

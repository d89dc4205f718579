"""Loss and memory of both trainers on a dense model: ``python3 -m tests.bench backends ...``.

    python3 -m tests.bench backends TOKENIZER RESULTS --model Qwen2.5-7B --profile FILE,flag=value

Each profile trains on one GPU, or on --gpus of a host, on the same random weights and the same rows
in the same order. The result has the losses of each step, the largest memory that the trainer logs
and that nvidia-smi shows, in GiB, and what ``plan`` predicts of the states of the transformers
trainer.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.config.gpu_models import GpuModel
from launchers.config.recipe import Recipe
from launchers.exits import LaunchError
from launchers.flags import command_line
from launchers.flags.command_line import Inputs
from launchers.plan import model_config
from launchers.preflight.gang_probes import free_port
from scripts.dev import results
from scripts.plan.transformers import states
from tests.bench import host, session
from tests.bench.model import dense_model, pairs
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import read
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import Profile
from tests.bench.speed.shared import Bench, own_flags

EVERY = 1.0
"""Seconds between readings of nvidia-smi."""
SHORTEST = 30
"""Minimum seconds left to start a run."""
TAIL = 2500
TEMPLATES = {"qwen2": "qwen2_5", "qwen3": "qwen3_nothinking"}
"""ms-swift's template by model type, which it cannot tell from the architecture alone."""
SHOWN = ("losses", "trainer_gib", "nvidia_smi_gib", "planned_gib", "seconds")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench backends")
    add = parser.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the result file")
    add("--label", default="backends", help="of the result")
    add("--profile", action="append", default=[], help="NAME:FILE[,FILE][,flag=value]")
    add("--model", required=True, help="of scripts/plan/models.yaml")
    add("--layers", type=int, default=0, help="of the model; 0 is its own number")
    add("--gpus", type=int, default=1)
    add("--steps", type=int, default=5)
    add("--pairs", type=int, default=200)
    add("--limit", type=float, default=110, help="seconds of one run")
    add("--total", type=float, default=400, help="seconds of all runs")
    add("--home", type=Path, default=bench_options.HOME, help="of model, data and runs")
    parser.set_defaults(against=None, trace="", passes="")
    return parser.parse_args(words)


def flags(backend: str, steps: int, model_type: str) -> dict[str, Any]:
    """Return the flags that override every profile: the same rows in their order, no early save.

    >>> flags("transformers", 5, "qwen2")["max_steps"], flags("megatron", 5, "qwen3")["model_type"]
    (5, 'qwen3')
    """
    named = {"model_type": model_type, "template": TEMPLATES[model_type]}
    common = {**named, "dataset_shuffle": False, "train_dataloader_shuffle": False}
    if backend == "megatron":
        return own_flags(steps) | common
    given = {"max_steps": steps, "save_steps": 1_000_000, "logging_steps": 1}
    return given | {"split_dataset_ratio": 0, "ddp_timeout": 600} | common


def recipe(profile: Profile, steps: int, model_type: str) -> Recipe:
    """Return the recipe of a profile."""
    values = profile.values()
    own = flags(values["recipe"]["backend"], steps, model_type)
    return bench_profiles.recipe(values, own)


def setting(options: argparse.Namespace, gpu: GpuModel) -> Bench:
    """Return the settings that all runs share."""
    sizes = dense_model.config(options.model, options.layers)
    return Bench(
        home=options.home,
        model=options.home / f"{options.model}-{sizes['num_hidden_layers']}",
        data=options.home / f"pairs-{options.pairs}.jsonl",
        model_config=model_config.parse_config(sizes),
        gpu=gpu,
        gpus=options.gpus,
        steps=options.steps,
        warm_up=0,
    )


def prepare(bench: Bench, options: argparse.Namespace) -> None:
    bench.home.mkdir(parents=True, exist_ok=True)
    if not (bench.model / "READY").exists():
        # a separate process: its CUDA context must be gone when training begins
        module = [sys.executable, "-m", "tests.bench.model.dense_model", str(bench.model)]
        words = [options.model, "--tokenizer", str(options.tokenizer.resolve())]
        words += ["--layers", str(options.layers)]
        env = bench_run.inherited()
        subprocess.run([*module, *words], cwd=bench_profiles.ROOT, env=env, check=True)
        (bench.model / "READY").touch()
    if not bench.data.exists():
        pairs.write(bench.data, options.tokenizer, options.pairs)


@dataclass(kw_only=True)
class Peak:
    """The largest used memory of the first GPU that nvidia-smi has shown, in GiB."""

    gib: float = 0.0
    last: float = field(default=0.0, repr=False)

    def look(self) -> None:
        """Read it if the last reading is older than the interval."""
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
            self.gib = max(self.gib, float(done.stdout.split()[0]) / 1024)
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            return  # the next reading counts


def words_of(bench: Bench, profile: Profile, parsed: Recipe, folder: Path) -> list[str]:
    """Return torchrun's command of a run, with the flags that the launcher writes."""
    inputs = Inputs(model=bench.model, mcore=None, datasets=(str(bench.data),), clone=None)
    given = command_line.training_flags(
        parsed, inputs, output_dir=folder / "out", resume=None, on_cpu=False
    )
    if profile.kept == ():
        given |= {"external_plugins": [], "callbacks": []}
    return bench_run.torchrun(bench, parsed, bench_run.place(free_port()), folder, given)


def train(bench: Bench, profile: Profile, parsed: Recipe, limit: float) -> dict[str, Any]:
    folder, peak, begun = bench_run.run_folder(bench, profile), Peak(), time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "attempts" / "1").mkdir(parents=True)
    command = words_of(bench, profile, parsed, folder)
    place = bench_run.place(free_port())
    env = bench_run.environment(bench, profile, place, folder, bench.home / "caches")
    why, code = session.run(
        command,
        env,
        folder / "log",
        limit=limit,
        done=lambda: len(read.logged(folder)) >= bench.steps,
        look=peak.look,
    )
    seconds = round(time.monotonic() - begun, 1)
    found = seen(folder, bench.steps)
    planned = None
    if parsed.backend == "transformers":
        planned = states.predict(parsed, bench.model_config, world=bench.gpus)
    return {
        "profile": {"files": list(profile.files), "changes": dict(profile.changes)},
        "backend": parsed.backend,
        "features": profile.features(parsed),
        "ended": why,
        "exit": code,
        "seconds": seconds,
        **found,
        "nvidia_smi_gib": round(peak.gib, 2),
        "planned_gib": None if planned is None else round(planned.total, 2),
    }


def seen(folder: Path, steps: int) -> dict[str, Any]:
    """Return the figures of the trainer's log, and the end of the output of a run without them."""
    log = read.logged(folder)
    text, finished = folder / "log", len(log) >= steps
    return {
        "finished": finished,
        "losses": [row["loss"] for row in log],
        "trainer_gib": max((float(row.get("memory(GiB)", 0)) for row in log), default=0.0),
        "log": read.columns(log),
        "tail": "" if finished or not text.exists() else text.read_text(errors="replace")[-TAIL:],
    }


def main(words: Sequence[str] | None = None) -> int:
    """Run all profiles; return 1 if one does not finish, 2 if none can start."""
    options, about, begun = arguments(words), host.about(), time.monotonic()
    try:
        profiles = bench_options.profiles(options)
        bench = setting(options, host.gpu_model(about["gpus"] or [""]))
        kind = dense_model.config(options.model)["model_type"]
        parsed = {each.name: recipe(each, options.steps, kind) for each in profiles}
        prepare(bench, options)
    except (LaunchError, ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"backends: {error}", file=sys.stderr)
        return 2
    runs: dict[str, Any] = {}
    record = {**about, "model": options.model, "layers": bench.model_config.layers, "runs": runs}
    for profile in profiles:
        left = options.total - (time.monotonic() - begun)
        if left < SHORTEST:
            runs[profile.name] = {"finished": False, "ended": "no time left"}
        else:
            limit = min(options.limit, left)
            runs[profile.name] = train(bench, profile, parsed[profile.name], limit)
        results.put(options.results, options.label, record)
        run = runs[profile.name]
        print(profile.name, {key: run.get(key) for key in SHOWN}, run.get("tail", ""), flush=True)
    return 0 if all(run["finished"] for run in runs.values()) else 1

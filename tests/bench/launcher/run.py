"""Control of a run through the launcher: start it, observe its files, stop it."""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.storage import checkpoint
from launchers.system.proc_stat import read_stat
from launchers.system.process import descendants
from scripts.local.volumes import TERMINATION_LOG
from scripts.problem import Problem
from tests.bench import host
from tests.bench.launcher.launch import WORKSPACE, Launch, manifest_of, spread
from tests.bench.model import pairs
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import shared as bench_shared
from tests.bench.speed.run import inherited

VOCABULARY = 151_936
"""Vocabulary, also of the tiny model, so that any tokenizer of the family fits."""
PAUSE = 0.02
"""Poll interval of a run's files in seconds."""
FLOORS = {"step": 10, "data": 10, "save": 15}
"""Seconds before a silent process counts as hung, in runs with injected faults."""


@dataclass(frozen=True, kw_only=True)
class Run:
    name: str
    manifest: Path
    log: Path
    workspace: Path = WORKSPACE

    @property
    def home(self) -> Path:
        return self.workspace / "runs" / self.name

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"

    def command(self) -> list[str]:
        module = [sys.executable, "-m", "scripts.cli", "local", "--python", sys.executable]
        given = ["--manifest", str(self.manifest), "--workspace", str(self.workspace)]
        return [*module, *given, "--verbose"]

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self.command(), stdout=output, stderr=subprocess.STDOUT, cwd=bench_profiles.ROOT
            )

    def rows(self) -> list[Row]:
        """Return all rows of ``metrics.jsonl``, including repeated steps."""
        path = self.home / "metrics.jsonl"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return list(reader.of_kind(text.splitlines(), Row))

    def newest(self) -> int:
        found = checkpoint.newest(self.checkpoints)
        return 0 if found is None else found.step

    def ends(self) -> list[dict[str, Any]]:
        """Return the termination messages of all pods since the last start of the runner."""
        pods = self.workspace / "pods" / self.name
        found = sorted(pods.glob(f"*/*{TERMINATION_LOG}"))
        return [json.loads(text) for p in found if (text := p.read_text(encoding="utf-8").strip())]


def open_run(launch: Launch, packed: Path, results: Path) -> Run:
    """Return the run of a launch with its manifest; remove the steps of an earlier visit."""
    text = manifest_of(launch, packed)
    folder = WORKSPACE / "manifests"
    folder.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    file = folder / f"{launch.name}.yaml"
    file.write_text(text, encoding="utf-8")
    run = Run(name=launch.name, manifest=file, log=results / f"{launch.name}.log")
    shutil.rmtree(run.home, ignore_errors=True)
    return run


def ranks(root: int) -> list[int]:
    """List the training ranks of a process tree: the direct children of torchrun's agents."""
    lines = {pid: _command_line(pid) for pid in (root, *descendants(root))}
    agents = {pid for pid, line in lines.items() if "torch.distributed.run" in line}
    return sorted(
        pid
        for pid, line in lines.items()
        if "rlhf.py" in line and (stat := read_stat(pid)) and stat.parent in agents
    )


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def wait_for(
    what: str,
    happens: Callable[[], bool],
    seconds: float,
    process: subprocess.Popen[bytes] | None = None,
) -> None:
    """Wait until a probe returns a value."""
    stop = time.monotonic() + seconds
    while not happens():
        if process is not None and process.poll() is not None:
            raise TimeoutError(f"the run ended with {process.returncode} before {what}")
        if time.monotonic() > stop:
            raise TimeoutError(f"no {what} within {seconds:.0f} s")
        time.sleep(PAUSE)


def model_folder(layers: int, experts: int = 0) -> Path:
    """Return the folder of the random model, whose name says its sizes: see ``model_words``.

    0 layers are the tiny model, 0 experts the real number.

    >>> model_folder(8, 32).name, model_folder(0).name
    ('model-8x32', 'model-tiny')
    """
    sizes = f"{layers}x{experts}" if experts else f"{layers}"
    return WORKSPACE / f"model-{sizes if layers else 'tiny'}"


def model_words(folder: Path) -> list[str]:
    """Return the flags of ``model/random_model.py`` for a folder of ``model_folder``.

    >>> model_words(Path("model-8x32")), model_words(Path("model-2"))
    (['--layers', '8', '--experts', '32'], ['--layers', '2'])
    """
    sizes = folder.name.removeprefix("model-")
    if sizes == "tiny":
        return ["--tiny", "--vocab", str(VOCABULARY)]
    layers, _, experts = sizes.partition("x")
    return ["--layers", layers, *(["--experts", experts] if experts else [])]


def data_file(count: int) -> Path:
    return WORKSPACE / f"pairs-{count}.jsonl"


def with_faults(
    options: argparse.Namespace,
    plugin: Path,
    callback: str,
    *,
    steps: int,
    saves: int,
    settle: float = 0.0,
) -> Launch:
    """Return the run of a tiny model on ``spread``'s nodes in which a plugin injects faults.

    The hang watchdog has ``FLOORS``; those of the profile take precedence.
    ``settle``: seconds for which training stands still before a fault.
    """
    nodes, each = spread(options.gpus)
    profile = bench_profiles.parse(options.profile)
    floors = {
        f"restarts.hang.floors.{phase}": seconds + round(settle)
        for phase, seconds in FLOORS.items()
    }
    return Launch(
        name=f"visit-{options.label}",
        profile=replace(profile, changes={**floors, **profile.changes}),
        nodes=nodes,
        gpus_per_node=each,
        model=model_folder(0),
        data=data_file(options.pairs),
        args={
            **bench_shared.resumable_flags(steps, saves),
            **bench_shared.SHORT_PACKS,
            "external_plugins": [str(plugin)],
            "callbacks": [callback],
        },
    )


def on_one_node(
    options: argparse.Namespace, model: Path, args: Mapping[str, Any], **fields: Any
) -> Launch:
    """Return a run of all GPUs of the command line on one node.

    ``args`` override the profile's flags; ``data`` is ``data_file`` by default.
    """
    about = {"data": data_file(options.pairs)} | fields
    return Launch(
        name=f"visit-{options.label}",
        profile=bench_profiles.parse(options.profile),
        nodes=1,
        gpus_per_node=options.gpus,
        model=model,
        args=args,
        **about,
    )


def prepare(tokenizer: Path, model: Path, count: int) -> dict[str, float]:
    took: dict[str, float] = {}
    data = data_file(count)
    WORKSPACE.mkdir(parents=True, exist_ok=True)
    begin, part = time.monotonic(), model.with_name(f"{model.name}.partial")
    if not model.exists():
        # a separate process: its CUDA contexts must be gone when training begins
        module = [sys.executable, "-m", "tests.bench.model.random_model", str(part)]
        words = ["--tokenizer", str(tokenizer.resolve()), *model_words(model)]
        subprocess.run([*module, *words], cwd=bench_profiles.ROOT, env=inherited(), check=True)
        part.rename(model)
        took["model_s"] = round(time.monotonic() - begin, 1)
    begin, part = time.monotonic(), data.with_name(f"{data.name}.partial")
    if not data.exists():
        pairs.write(part, tokenizer, count)
        part.rename(data)
        took["pairs_s"] = round(time.monotonic() - begin, 1)
    return took


def begin(
    name: str, options: argparse.Namespace, launch_of: Callable[[argparse.Namespace], Launch]
) -> tuple[Run, dict[str, Any]] | None:
    """Render the run of a measurement and write its model and pairs.

    Args:
        name: of the measurement, for the message.
        options: parsed command line, see ``launch.parser``; ``layers`` 0 is the tiny model.
        launch_of: makes the launch from it.

    Returns:
        The run, and the begin of its record: versions, machine, layers and seconds of the
        preparation. None if it cannot start, with the reason on stderr.
    """
    about = host.about()
    try:
        if (seen := len(about["gpus"])) < options.gpus:
            raise ValueError(f"this host has {seen} GPUs and {options.gpus} are needed")
        launch = launch_of(options)
        run = open_run(launch, options.packed, options.results)
        prepared = prepare(options.tokenizer, launch.model, options.pairs)
    except (Problem, ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    record = {**about, "gpus_used": options.gpus, "layers": options.layers}
    return run, {**record, "profile": options.profile, "prepared": prepared}


def kill(pid: int, number: int) -> float:
    os.kill(pid, number)
    return time.time()

"""Run the Megatron path on a GPU host: ``python3 -m tests.gpu.visit PACKED RESULTS [RUN ...]``.

PACKED is what ``pack.py`` made. Each run goes through the local runner and the launcher, from clone
to export; RESULTS gets one JSON a run. ``tiny-resume`` is stopped after its first checkpoint and
started again, ``tiny-kill`` loses a rank and restarts by itself; ``big-*`` measure the start of a
model of real widths, converted and not.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu.pack import HOST

BIG_LAYERS = 24
WORKSPACE = HOST / "workspace"


def prepare(packed: Path, names: list[str]) -> dict[str, float]:
    """Copy the sources and write the random models; return the seconds that each took."""
    shutil.copytree(packed / "sources", HOST / "sources", dirs_exist_ok=True)
    took = {}
    models = [("tiny", HOST / "sources" / "tiny-moe", ["--tiny"])]
    if any(name.startswith("big") for name in names):
        models.append(("big", WORKSPACE / "big-moe", ["--layers", str(BIG_LAYERS)]))
    for name, folder, options in models:
        if folder.exists():
            continue
        begin = time.monotonic()
        tokenizer = ["--tokenizer", str(HOST / "sources" / "model")]
        command = [sys.executable, "-m", "tests.gpu.random_model", str(folder)]
        subprocess.run([*command, *tokenizer, *options], check=True)
        took[name] = round(time.monotonic() - begin, 1)
    return took


def command(packed: Path, name: str) -> list[str]:
    """Return the local runner's command line."""
    manifest = packed / "manifests" / f"{name}.yaml"
    module = [sys.executable, "-m", "scripts.cli", "local", "--python", sys.executable]
    return [*module, "--manifest", str(manifest), "--workspace", str(WORKSPACE), "--verbose"]


def run(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Run once to the end; return its exit status, seconds and the time of the first step."""
    begin, wall = time.monotonic(), time.time()
    with log.open("ab") as output:
        code = subprocess.run(
            command(packed, name), stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    return {"exit": code, "seconds": round(time.monotonic() - begin, 1), "began": wall}


def run_in_two(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Stop a run by SIGTERM after its first complete checkpoint, then run it to the end."""
    with log.open("ab") as output:
        first = subprocess.Popen(command(packed, name), stdout=output, stderr=subprocess.STDOUT)
    checkpoints = WORKSPACE / "runs" / name / "checkpoints"
    wait_for(lambda: any(checkpoints.glob("*/COMPLETE.json")), 300)
    first.send_signal(signal.SIGTERM)
    code = first.wait(120)
    stopped_at = len(steps(name))
    return {"first_exit": code, "steps_before_stop": stopped_at, **run(packed, name, log)}


def run_killed(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Kill one rank after the first complete checkpoint; the JobSet's restart does the rest."""
    with log.open("ab") as output:
        whole = subprocess.Popen(command(packed, name), stdout=output, stderr=subprocess.STDOUT)
    checkpoints = WORKSPACE / "runs" / name / "checkpoints"
    wait_for(lambda: any(checkpoints.glob("*/COMPLETE.json")) and len(steps(name)) > 11, 300)
    os.kill(ranks()[-1], signal.SIGKILL)
    begin = time.monotonic()
    # steps of the other ranks may still be logged: what counts is a step of the next attempt
    wait_for((WORKSPACE / "runs" / name / "attempts" / "2").exists, 300)
    before = len(steps(name))
    wait_for(lambda: len(steps(name)) > before, 300)
    new_step = round(time.monotonic() - begin, 1)
    return {"exit": whole.wait(300), "steps_before_kill": before, "kill_to_new_step_s": new_step}


def ranks() -> list[int]:
    """List the training ranks of this machine: the direct children of torchrun's agents."""
    lines, parents = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            lines[pid] = (folder / "cmdline").read_bytes().decode(errors="replace")
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    agents = {pid for pid, line in lines.items() if "torch.distributed.run" in line}
    return sorted(p for p in lines if parents.get(p) in agents and "rlhf.py" in lines[p])


SPECIAL = {"tiny-resume": run_in_two, "tiny-kill": run_killed}


def wait_for(happens: Callable[[], bool], seconds: float) -> None:
    """Wait until something happens.

    Raises:
        SystemExit: it did not happen in time.
    """
    stop = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > stop:
            raise SystemExit("nothing happened in time")
        time.sleep(0.1)


def steps(name: str) -> list[dict[str, Any]]:
    """Return the trainer's log rows of training steps."""
    log = WORKSPACE / "runs" / name / "checkpoints" / "logging.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [row for row in rows if "loss" in row]


def progress(name: str) -> dict[str, Any]:
    """Return the run's ``progress.json``."""
    path = WORKSPACE / "runs" / name / "progress.json"
    parsed: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return parsed


def host() -> dict[str, Any]:
    """Return what the figures were measured on."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except OSError:  # no nvidia-smi: no GPUs
        text = ""
    gpus = text.split("\n")
    names = ("torch", "ms-swift", "megatron-core", "transformer-engine", "mcore-bridge")
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpus": [gpu for gpu in gpus if gpu],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
    }


def version(package: str) -> str:
    """Return an installed package's version."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def main() -> None:
    """Run what the command line asks for."""
    packed, results = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    names = sys.argv[3:]
    results.mkdir(parents=True, exist_ok=True)
    took = prepare(packed, names)
    for name in names:
        log = results / f"{name}.log"
        outcome = SPECIAL.get(name, run)(packed, name, log)
        record = {
            "run": name,
            **host(),
            "models_written_s": took,
            **outcome,
            "progress": progress(name),
            "steps": steps(name),
        }
        (results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        losses = [row["loss"] for row in record["steps"]]
        print(name, outcome, "loss", losses[:3], losses[-1:])
        if outcome["exit"]:
            print(log.read_text()[-3000:])


if __name__ == "__main__":
    main()

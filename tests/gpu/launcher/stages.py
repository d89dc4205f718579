"""All stages of a run on a GPU host, from clone to export.

    python3 -m tests.gpu.launcher.stages PACKED RESULTS [RUN ...]

PACKED is the folder of ``pack.py``. Each run goes through the local runner and the launcher;
RESULTS gets one JSON per run. ``tiny-resume`` is stopped after its first checkpoint and started
again, ``tiny-kill`` loses a rank and restarts automatically; ``big-*`` measure the start of a model
with real widths, with and without conversion.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from launchers.metrics.trainer_log import LOG, read_losses
from tests.gpu import host
from tests.gpu.launcher.launch import WORKSPACE
from tests.gpu.launcher.run import Run, ranks, wait_for

BIG_LAYERS = 24


def prepare(packed: Path, names: list[str]) -> dict[str, float]:
    """Copy the sources and write the random models; return the seconds of each."""
    shutil.copytree(packed / "sources", host.HOME / "sources", dirs_exist_ok=True)
    took = {}
    models = [("tiny", host.HOME / "sources" / "tiny-moe", ["--tiny"])]
    if any(name.startswith("big") for name in names):
        models.append(("big", WORKSPACE / "big-moe", ["--layers", str(BIG_LAYERS)]))
    for name, folder, options in models:
        if folder.exists():
            continue
        begin = time.monotonic()
        tokenizer = ["--tokenizer", str(host.HOME / "sources" / "model")]
        command = [sys.executable, "-m", "tests.gpu.model.random_model", str(folder)]
        subprocess.run([*command, *tokenizer, *options], check=True)
        took[name] = round(time.monotonic() - begin, 1)
    return took


def files(packed: Path, name: str, log: Path) -> Run:
    """Return the run's files on this host."""
    return Run(name=name, manifest=packed / "manifests" / f"{name}.yaml", log=log)


def run(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Run until the end; return exit status, seconds and time of the first step."""
    begin, wall = time.monotonic(), time.time()
    code = files(packed, name, log).start().wait()
    return {"exit": code, "seconds": round(time.monotonic() - begin, 1), "began": wall}


def run_in_two(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Stop a run by SIGTERM after its first complete checkpoint, then finish it.

    Returns also what must hold: the pods end with 75, ``saved`` is the last step before the stop,
    and each step is in the log once (``repeated`` is empty).
    """
    about = files(packed, name, log)
    first = about.start()
    wait_for("a checkpoint", lambda: about.newest() > 0, 300, first)
    first.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    code = first.wait(120)
    stopped = {
        "first_exit": code,
        "stop_s": round(time.monotonic() - begin, 1),
        "pods": [end["code"] for end in about.ends()],
        "steps_before_stop": len(steps(name)),
        "saved": about.newest(),
    }
    finished = run(packed, name, log)
    logged = [step.number for step in read_losses(about.home / "checkpoints" / LOG)]
    again = sorted({step for step in logged if logged.count(step) > 1})
    return {**stopped, "repeated": again, **finished}


def run_killed(packed: Path, name: str, log: Path) -> dict[str, Any]:
    """Kill one rank after the first complete checkpoint; it is started again by itself."""
    about = files(packed, name, log)
    whole = about.start()
    wait_for("step 12", lambda: about.newest() > 0 and len(steps(name)) > 11, 300, whole)
    os.kill(ranks(whole.pid)[-1], signal.SIGKILL)
    begin = time.monotonic()
    # the other ranks may still log steps: wait for a step of the next attempt
    wait_for("second attempt", (about.home / "attempts" / "2").exists, 300, whole)
    before = len(steps(name))
    wait_for("new step", lambda: len(steps(name)) > before, 300, whole)
    new_step = round(time.monotonic() - begin, 1)
    return {"exit": whole.wait(300), "steps_before_kill": before, "kill_to_new_step_s": new_step}


SPECIAL = {"tiny-resume": run_in_two, "tiny-kill": run_killed}


def steps(name: str) -> list[dict[str, Any]]:
    """Return the trainer's log rows of training steps."""
    log = WORKSPACE / "runs" / name / "checkpoints" / LOG
    return [step.row for step in read_losses(log)]


def main() -> None:
    """Run the stages of the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.launcher.stages")
    parser.add_argument("packed", type=Path, help="what pack.py made")
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("names", nargs="+", metavar="RUN", help="of the packed manifests")
    options = parser.parse_args()
    packed, results, names = options.packed.resolve(), options.results, options.names
    results.mkdir(parents=True, exist_ok=True)
    took = prepare(packed, names)
    for name in names:
        log = results / f"{name}.log"
        outcome = SPECIAL.get(name, run)(packed, name, log)
        record = {
            "run": name,
            **host.about(),
            "models_written_s": took,
            **outcome,
            "progress": files(packed, name, log).progress(),
            "steps": steps(name),
        }
        (results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        losses = [row["loss"] for row in record["steps"]]
        print(name, outcome, "loss", losses[:3], losses[-1:])
        if outcome["exit"]:
            print(log.read_text()[-3000:])


if __name__ == "__main__":
    main()

"""A rehearsal of a profile with fewer layers, through the launcher on this host.

    python3 -m tests.bench rehearse TOKENIZER RESULTS --gpus 2 --profile FILE[,FILE]

One node with all GPUs, real widths, the optimizer in the checkpoints and 5 % of the pairs held out.
The result has the report of the rehearsal (``runs/<release>/
rehearsal.json``), exit code, seconds, when saves and export were complete, and what the rehearsal
left on the workspace.
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.config.settings import REHEARSAL
from scripts.dev import results
from tests.bench import session
from tests.bench.launcher import launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.ending import Seals, ending
from tests.bench.launcher.launch import Launch
from tests.bench.launcher.run import Run
from tests.bench.speed import shared as bench_shared

STEPS, SAVES = 500, 100
"""Steps of the long run, and between its saves; the rehearsal has its own."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = launch.parser("rehearse")
    parser.add_argument("--layers", type=int, default=3, help="of the real widths")
    return parser.parse_args(words)


def launch_of(options: argparse.Namespace) -> Launch:
    """Return the run."""
    args = bench_shared.resumable_flags(STEPS, SAVES) | {"split_dataset_ratio": 0.05}
    model = launch_run.model_folder(options.layers)
    return launch_run.on_one_node(options, model, args, values={"rehearse": True})


def left(run: Run) -> list[str]:
    """List what takes space and should have been removed."""
    return [name for name in ("checkpoints", "export") if (home_of(run) / name).exists()]


def home_of(run: Run) -> Path:
    return run.workspace / "runs" / f"{run.name}.{REHEARSAL}"


def complaints(record: Mapping[str, Any]) -> list[str]:
    report = record["report"]
    if not report:
        return [f"there is no report; the run ended with {record['exit']}"]
    problems = [
        f"{figure['id']}: {figure['measured']}; {figure['remedy']}"
        for figure in report["figures"]
        if figure["verdict"] == "fail"
    ]
    known = {figure["id"] for figure in report["figures"]}
    wanted = ("resume", "gpu-memory", "host-memory", "speed", "save", "grace", "disk", "export")
    problems += [f"{id} was not measured" for id in wanted if id not in known]
    if record["exit"] and not problems:
        problems.append(f"the run ended with {record['exit']}, and no figure failed")
    return problems + [f"{name} is still there" for name in record["left"]]


def main(words: Sequence[str] | None = None) -> int:
    """Rehearse; return 1 if a figure fails or is missing, 2 if the run cannot start."""
    options = arguments(words)
    if (begun := launch_run.begin("rehearse", options, launch_of)) is None:
        return 2
    run, record = begun
    began, seals = time.time(), Seals(home_of(run))
    shutil.rmtree(seals.home, ignore_errors=True)
    why, code = session.run(
        run.command(), dict(os.environ), run.log, limit=options.limit, look=seals.look
    )
    path = run.home / f"{REHEARSAL}.json"
    record |= {
        "ended": why,
        "exit": code,
        "wall_s": round(time.time() - began, 1),
        "report": json.loads(path.read_text(encoding="utf-8")) if path.exists() else {},
        "left": left(run),
        "ending": ending(seals.home, seals.seen),
    }
    problems = complaints(record)
    record |= {"complaints": problems}
    record |= {"tail": run.log.read_text(errors="replace")[-2500:] if problems else ""}
    results.put(options.results, options.label, record)
    print("\n".join(problems) or "the rehearsal passed", record["wall_s"], "s", flush=True)
    print(json.dumps(record["ending"]), flush=True)
    return 1 if problems else 0

"""The faults of ``tests/faults/catalogue/gpu.yaml``, each in a run of its own through the launcher.

    python3 -m tests.gpu.launcher.matrix TOKENIZER RESULTS --gpus 2 --profile FILE[,FILE] [--only
    NAME,NAME] [--seeds N]

A tiny model on two "nodes" saves every fourth of ten steps; the plugin ``swift_fault.py`` injects
the fault, and the local runner restarts the run as the JobSet would. RESULTS gets
``bench-<label>.json``: what happened, and what differs from the catalogue. Each run takes about a
minute and a half.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launchers.system.process import adopt_orphans, descendants, kill_descendants
from scripts.problem import Problem
from tests.faults import catalogue
from tests.faults.catalogue import Fault
from tests.gpu import host
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench import shared as bench_shared
from tests.gpu.launcher import judge, launch
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import WORKSPACE, Launch
from tests.gpu.launcher.run import Run

STEPS, SAVES = 10, 4
PLUGIN = Path(__file__).parents[1] / "plugins" / "swift_fault.py"
FOLDER = WORKSPACE / "fault"
"""Holds ``fault.json`` for the plugin, and the time of the fault."""
ENDLESS_SECONDS = 60.0
"""Time after a fault without any further step after which a run counts as endless."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    made = launch.parser("matrix")
    made.add_argument("--only", default="", help="names of faults, with commas; all by default")
    made.add_argument("--seeds", type=int, default=1)
    return made.parse_args(words)


def launches(options: argparse.Namespace) -> list[Launch]:
    """Return the run, which is the same for all faults.

    Raises:
        ValueError: the GPUs cannot be divided, or the profile cannot be read.
    """
    each = launch.half(options.gpus)
    own = {
        **bench_shared.resumable_flags(STEPS, SAVES),
        **bench_shared.SHORT_PACKS,
        "external_plugins": [str(PLUGIN)],
        "callbacks": ["fault"],
    }
    return [
        Launch(
            name=f"visit-{options.label}",
            profile=bench_profiles.parse(options.profile),
            nodes=2,
            gpus_per_node=each,
            model=launch_run.model_folder(0),
            data=launch_run.data_file(options.pairs),
            args=own,
        )
    ]


def plan(fault: Fault, seed: int) -> dict[str, Any]:
    """Choose rank and step of a fault by the seed."""
    chance = random.Random(f"{fault.name} {seed}")
    return {**fault.inject, **{key: chance.choice(values) for key, values in fault.spread.items()}}


def inject(run: Run, fault: Fault, seed: int) -> dict[str, Any]:
    """Run once with a fault; return what happened."""
    shutil.rmtree(run.home, ignore_errors=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    planned = plan(fault, seed)
    (FOLDER / "fault.json").write_text(json.dumps(planned), encoding="utf-8")
    begun, process = time.time(), run.start()
    end = _await_end(run, process, begun + fault.seconds)
    left = len(descendants(process.pid)) if end == "ended" else 0
    if end == "endless":
        kill_descendants(timeout=20.0)
        process.wait(30)
    return {**observed(run, end, process.returncode), "planned": planned, "orphans": left}


def _await_end(run: Run, process: subprocess.Popen[bytes], deadline: float) -> str:
    """Wait for the end; ``endless`` without a step after the fault, or at the deadline."""
    while process.poll() is None:
        now, injected = time.time(), _injected()
        steps = [row.time for row in run.rows()]
        is_still = injected is not None and now - max([injected, *steps]) > ENDLESS_SECONDS
        if now > deadline or (is_still and not run.ends()):
            return "endless"
        time.sleep(0.5)
    return "ended"


def _injected() -> float | None:
    sign = FOLDER / "injected"
    text = sign.read_text().strip() if sign.exists() else ""
    return float(text) if text else None


def observed(run: Run, end: str, exit_code: int | None) -> dict[str, Any]:
    """Return outcome, first cause and times of a run that has ended."""
    rows, injected = run.rows(), _injected()
    attempts = sorted(int(p.name) for p in (run.home / "attempts").glob("*") if p.name.isdecimal())
    restarts = len(attempts) - 1
    well = exit_code == 0 and max((row.step for row in rows), default=0) == STEPS
    outcome = "endless" if end == "endless" else "failed"
    if end != "endless" and well:
        outcome = "resumed" if restarts else "unaffected"
    root = first_cause(run.home / "attempts" / "1")
    found = {
        "outcome": outcome,
        "exit": exit_code,
        "restarts": restarts,
        "code": root.get("code"),
        "class": root.get("class"),
        "id": root.get("id"),
        "cause": str(root.get("cause", ""))[:300],
        "injected": injected,
    }
    if injected is not None and restarts:
        found |= judge.recovery(rows, injected, 1, 2)
        found["repeated"] = judge.repeated(rows, 1, 2)
    return found


def first_cause(attempt: Path) -> dict[str, Any]:
    """Return the record of the rank that names a cause of its own; empty without a record."""
    records = [json.loads(path.read_text()) for path in sorted(attempt.glob("termination-*.json"))]
    records.sort(key=lambda record: record.get("id") in ("peer-ended", "cascade"))
    return dict(records[0]) if records else {}


def complaints(fault: Fault, seen: dict[str, Any]) -> Iterator[str]:
    """Yield what differs from the catalogue."""
    expect = fault.expect
    if seen["injected"] is None:
        yield "the fault was not injected"
    if seen["outcome"] != expect.outcome:
        yield f"outcome {seen['outcome']}, not {expect.outcome}"
    if expect.code is not None and seen["code"] not in (int(expect.code), None):
        yield f"code {seen['code']}, not {int(expect.code)}"
    if expect.failure_class is not None and seen["class"] != expect.failure_class:
        yield f"class {seen['class']}, not {expect.failure_class}"
    if seen["orphans"]:
        yield f"{seen['orphans']} processes were left"


def main(words: Sequence[str] | None = None) -> int:
    """Inject all faults; return 1 if one differs, 2 if the run cannot start."""
    options, about = arguments(words), host.about()
    try:
        if short := launch_run.seen_gpus(options.gpus, about["gpus"]):
            raise ValueError(short)
        run = launch_run.open_run(launches(options)[0], options.packed, options.results)
        launch_run.prepare(options.tokenizer, 0, options.pairs)
    except (Problem, ValueError, OSError) as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2
    adopt_orphans()
    only = [name for name in options.only.split(",") if name]
    chosen = [each for each in catalogue.load("gpu") if not only or each.name in only]
    results: list[dict[str, Any]] = []
    path = options.results / f"bench-{options.label}.json"
    for fault in chosen:
        for seed in range(options.seeds):
            seen = inject(run, fault, seed)
            problems = list(complaints(fault, seen))
            results.append({"name": fault.name, "seed": seed, **seen, "problems": problems})
            document = {**about, "gpus_used": options.gpus, "runs": results}
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            times = seen.get("new_step_s"), seen["cause"]
            print(fault.name, seed, seen["outcome"], *times, problems or "as declared", flush=True)
    return 1 if any(each["problems"] for each in results) else 0


if __name__ == "__main__":
    sys.exit(host.run(main))

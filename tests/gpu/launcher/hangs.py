"""Hangs of real ranks through the launcher: a stopped rank, a skipped collective, a stuck save.

    python3 -m tests.gpu.launcher.hangs TOKENIZER RESULTS --gpus 2 --profile FILE[,FILE]

A tiny model on two "nodes". ``plugins/swift_hang.py`` injects one fault in each attempt; after each
hang the gang starts again in place. The fourth attempt has a slow rank and no hang, and finishes.
RESULTS gets ``bench-<label>.json``: for each fault the seconds until the hang was found, the rank
that was named and why, exit codes, and the files that were left.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.exits import Exit
from launchers.hang import report
from launchers.system.process import adopt_orphans, kill_descendants
from tests.gpu import host
from tests.gpu.bench import shared as bench_shared
from tests.gpu.launcher import launch
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import Launch
from tests.gpu.launcher.run import Run
from tests.gpu.launcher.visit import begin

STEPS, SAVES = 10, 2
FAULTS = ("stop", "skip", "save", "slow")
"""Of the attempts 1 to 4; a test compares them with the plugin's."""
NOTICED_SECONDS = 60.0
PLUGIN = bench_shared.PLUGINS / "swift_hang.py"
PLACED = launch.WORKSPACE / "plugins" / PLUGIN.name
"""Its path in the manifest, which may have been packed on another machine."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    return launch.parser("hangs").parse_args(words)


def launches(options: argparse.Namespace) -> list[Launch]:
    """Return the run.

    Raises:
        ValueError: the GPUs cannot be divided, or the profile cannot be read.
    """
    launch.half(options.gpus)  # a collective has partners
    return [launch_run.with_faults(options, PLACED, "hang_fault", steps=STEPS, saves=SAVES)]


def attempts(run: Run) -> dict[str, dict[str, Any]]:
    """Return what each attempt left, by its fault."""
    return {
        name: attempt(run.home / "attempts" / str(number))
        for number, name in enumerate(FAULTS, start=1)
    }


def attempt(folder: Path) -> dict[str, Any]:
    """Return what one attempt left."""
    fault, hang = _read(folder / "fault.json"), _read(folder / report.FILE)
    ends = [_read(path) for path in sorted(folder.glob("termination-*.json"))]
    return {
        "rank": fault.get("rank"),
        "seconds": round(hang["time"] - fault["time"], 1) if fault and hang else None,
        "culprit": hang.get("culprit"),
        "phase": hang.get("phase"),
        "silent_s": hang.get("seconds"),
        "limit_s": hang.get("limit"),
        "groups": [[rank["rank"], rank["groups"]] for rank in hang.get("ranks", [])],
        "frames": [[rank["rank"], rank["frames"][:4]] for rank in hang.get("ranks", [])],
        "files": hang.get("files", []),
        "ends": {str(end["rank"]): [end["code"], end["class"], end["cause"]] for end in ends},
    }


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def complaints(record: Mapping[str, Any], gpus: int) -> list[str]:
    """Return a sentence for each failed check."""
    problems = [str(record["error"])] if record.get("error") else []
    for name in FAULTS:
        problems += _complaints(name, record.get("attempts", {}).get(name, {}), gpus - 1)
    if record.get("exit") != 0 or record.get("last_step") != STEPS:
        problems.append(f"the run ended with {record.get('exit')} at {record.get('last_step')}")
    return problems


def _complaints(name: str, seen: Mapping[str, Any], last: int) -> list[str]:
    """Judge one attempt; the fault is in the rank ``last``, on the second node."""
    if seen.get("rank") != last:
        return [f"{name}: the fault was not injected in rank {last}"]
    culprit = seen["culprit"]
    if name == "slow":
        return [] if culprit is None else [f"slow: counts as a hang: {culprit['why']}"]
    if culprit is None:
        return [f"{name}: no hang was found"]
    problems = []
    if culprit["ranks"] != [last]:
        problems.append(f"{name}: {culprit['ranks']} were named, not {last}: {culprit['why']}")
    codes = {node: end[0] for node, end in seen["ends"].items()}
    if codes != {"0": int(Exit.PEER), "1": int(Exit.HANG)}:
        problems.append(f"{name}: the nodes ended with {codes}")
    if seen["seconds"] > NOTICED_SECONDS:
        problems.append(f"{name}: found after {seen['seconds']} s")
    if not any("flight-recorder/" in file for file in seen["files"]):
        problems.append(f"{name}: no dump of the flight recorder")
    return problems


def main(words: Sequence[str] | None = None) -> int:
    """Run all faults; return 1 if a check fails, 2 if the run cannot start."""
    options = arguments(words)
    if (visit := begin("hangs", options, launches, layers=0)) is None:
        return 2
    run = visit.runs[0]
    PLACED.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PLUGIN, PLACED)
    record: dict[str, Any] = {**visit.about, "gpus_used": options.gpus, "prepared": visit.prepared}
    record |= {"profile": options.profile, "floors": launch_run.FLOORS}
    adopt_orphans()
    try:
        record["exit"] = run.start().wait(options.limit)
    except subprocess.TimeoutExpired as error:
        record["error"] = str(error)
        record["tail"] = run.log.read_text(errors="replace")[-2500:]
    finally:
        kill_descendants(timeout=20.0)
        record["attempts"] = attempts(run)
        record["last_step"] = max((row.step for row in run.rows()), default=0)
        problems = complaints(record, options.gpus)
        file = options.results / f"bench-{options.label}.json"
        file.write_text(json.dumps({**record, "complaints": problems}, indent=1) + "\n")
    print("\n".join(problems) or "all hangs were found and named", record["attempts"])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(host.run(main))

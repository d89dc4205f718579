"""Saves through the launcher: what stops training, and an exact resume.

    python3 -m tests.bench saves TOKENIZER RESULTS --gpus 2 --layers 2 --profile FILE[,FILE]

A run of some layers of the real model, as shipped. A rank is killed while the second checkpoint is
written in the background: the next attempt must resume from the first one, repeat the steps since,
and finish the run. The result has, of each save, its bytes, the seconds for which it stopped
training and those until the seal; whether the state loaded has each bit of the state saved; losses
and gradient norms of the repeated steps; whether the shards of the last two checkpoints differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.system import threads
from launchers.system.process import adopt_orphans, kill_descendants
from scripts.dev import results
from tests.bench import host
from tests.bench.launcher import attempts, launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.launch import Launch
from tests.bench.launcher.run import Run, wait_for
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import shared as bench_shared

SAVES, STEPS = 6, 20
"""Steps between saves, and of the run."""
PROBE = ("swift_saves_probe.py", "saves_probe")
"""The plugin that measures, and its callback."""
PLUGINS = host.HOME / "plugins"
"""Folder of the plugins on the host: the manifests are rendered elsewhere."""
_WRITTEN = re.compile(r"checkpoint written step=(\d+) seconds=([\d.]+)")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = launch.parser("saves")
    parser.add_argument("--layers", type=int, default=2, help="of the real widths")
    return parser.parse_args(words)


def launch_of(options: argparse.Namespace) -> Launch:
    """Return the run.

    Raises:
        ValueError: the profile cannot be read.
    """
    return Launch(
        name=f"visit-{options.label}",
        profile=bench_profiles.parse(options.profile),
        nodes=1,
        gpus_per_node=options.gpus,
        model=launch_run.model_folder(options.layers),
        data=launch_run.data_file(options.pairs),
        args={
            **bench_shared.resumable_flags(STEPS, SAVES),
            "callbacks": PROBE[1],
            "external_plugins": [str(PLUGINS / PROBE[0])],
        },
    )


def probed(run: Run, what: str) -> dict[tuple[int, int], dict[int, dict[str, Any]]]:
    """Return the probe's lines by attempt and step, then by rank.

    Args:
        run: the run.
        what: ``save`` or ``load``.
    """
    found: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    for path in sorted(run.home.glob("attempts/*/saves-*.jsonl")):
        attempt, rank = int(path.parent.name), int(path.stem.rpartition("-")[2])
        for line in map(json.loads, path.read_text().splitlines()):
            if line["what"] == what:
                found.setdefault((attempt, line["step"]), {})[rank] = line
    return found


def size(folder: Path) -> dict[str, int]:
    """Return the bytes of a checkpoint: of Megatron's files, and of the safetensors."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    kinds = {"megatron": ".distcp", "safetensors": ".safetensors"}
    return {
        kind: sum(path.stat().st_size for path in files if path.suffix == suffix)
        for kind, suffix in kinds.items()
    }


def digests(folder: Path) -> list[str]:
    """Return the SHA-256 of each shard."""

    def digest(path: Path) -> str:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    return threads.each(digest, sorted(folder.rglob("*.distcp")))


def interrupted(run: Run, limit: float) -> dict[str, Any]:
    """Kill a rank while the second checkpoint is written; return what happened until the end."""
    process = run.start()
    second = run.checkpoints / f"checkpoint-{2 * SAVES}"

    def is_writing() -> bool:
        has_begun = any(path.stat().st_size > 0 for path in second.rglob("*.distcp"))
        return has_begun and run.newest() == SAVES

    wait_for("a write of the second checkpoint", is_writing, limit, process)
    found = launch_run.ranks(process.pid)
    if not found:
        raise TimeoutError("no training rank was found to be killed")
    killed = launch_run.kill(found[-1], signal.SIGKILL)
    state: dict[str, Any] = {
        "bytes": size(run.checkpoints / f"checkpoint-{SAVES}"),
        "killed": killed,
        "newest": run.newest(),
        "left": [path.name for path in second.rglob("*.distcp")],
    }
    state["exit"] = process.wait(limit)
    state["kept"] = sorted(path.name for path in run.checkpoints.glob("checkpoint-*"))
    kept = [run.checkpoints / name for name in state["kept"]]
    shards = [digests(folder) for folder in kept]
    state["shards"] = [len(each) for each in shards]
    state["shards_differ"] = len(shards) > 1 and not set(shards[0]) & set(shards[1])
    state["export"] = sum(p.stat().st_size for p in run.home.glob("export/*.safetensors"))
    return state


def figures(run: Run) -> dict[str, Any]:
    """Return each save's seconds, and the seconds of a step without one."""
    written = {int(step): float(s) for step, s in _WRITTEN.findall(run.log.read_text())}
    saves = [
        {
            "attempt": attempt,
            "step": step,
            "stop_s": round(max(line["seconds"] for line in ranks.values()), 2),
            "write_s": written.get(step),
            "peak_gib": round(max(line["peak"] for line in ranks.values()) / 2**30, 1),
        }
        for (attempt, step), ranks in sorted(probed(run, "save").items())
    ]
    rows = run.rows()
    seconds = [row.seconds for row in rows if row.step % SAVES > 1]
    writing = [row.seconds for row in rows if row.step % SAVES == 1 and row.step > 1]
    return {
        "saves": saves,
        "step_s": statistics.median(seconds) if seconds else None,
        "step_after_save_s": statistics.median(writing) if writing else None,
        "world": rows[0].world if rows else None,
        "each_step": [
            [row.attempt, row.step, round(row.time, 2), row.seconds, row.values, row.grad_norm]
            for row in rows
        ],
    }


def resumed(run: Run) -> dict[str, Any]:
    """Compare the second attempt with the first: state loaded, and repeated steps."""
    loads, saves = probed(run, "load"), probed(run, "save")
    pairs = [
        (step, {rank: line["sums"] for rank, line in ranks.items()}, saves.get((1, step), {}))
        for (_, step), ranks in loads.items()
    ]
    same = {
        step: loaded == {rank: line["sums"] for rank, line in saved.items()}
        for step, loaded, saved in pairs
    }
    rows = run.rows()
    old = {row.step: row for row in rows if row.attempt == 1}
    new = {row.step: row for row in rows if row.attempt == 2}
    both = sorted(old.keys() & new.keys())
    return {
        "same_state": same,
        **attempts.repeated(rows, 1, 2),
        "equal_steps": [
            step
            for step in both
            if old[step].values == new[step].values and old[step].grad_norm == new[step].grad_norm
        ],
    }


def complaints(record: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each check that failed."""
    problems = [str(record["error"])] if record.get("error") else []
    again = record.get("resumed", {})
    checks = {
        f"the run ended with {record.get('exit')}": record.get("exit") == 0,
        f"newest after the kill: {record.get('newest')}": record.get("newest") == SAVES,
        f"it continued with step {again.get('first')}": again.get("first") == SAVES + 1,
        f"state loaded: {again.get('same_state')}": again.get("same_state") == {SAVES: True},
        f"first repeated loss apart by {again.get('first_apart')}": again.get("first_apart") == 0,
        "shards of two checkpoints are equal": bool(record.get("shards_differ")),
        "nothing was exported": bool(record.get("export")),
    }
    return problems + [what for what, holds in checks.items() if not holds]


def main(words: Sequence[str] | None = None) -> int:
    """Measure the run; return 1 if a check fails, 2 if it cannot start."""
    options = arguments(words)
    if (begun := launch_run.begin("saves", options, launch_of)) is None:
        return 2
    run, record = begun
    shutil.copytree(bench_shared.PLUGINS, PLUGINS, dirs_exist_ok=True)
    adopt_orphans()
    try:
        record |= interrupted(run, options.limit)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        record |= {"error": str(error), "tail": run.log.read_text(errors="replace")[-2500:]}
    finally:
        kill_descendants(timeout=20.0)
    record |= {**figures(run), "resumed": resumed(run)}
    record["complaints"] = complaints(record)
    results.put(options.results, options.label, record)
    print(record.get("bytes"), record["saves"], flush=True)
    print("\n".join(record["complaints"]) or "no bit was lost", record["resumed"])
    return 1 if record["complaints"] else 0

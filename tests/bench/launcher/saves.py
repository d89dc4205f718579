"""Saves through the launcher: what stops training, and an exact resume.

    python3 -m tests.bench saves TOKENIZER RESULTS --gpus 2 --layers 2 --profile FILE[,FILE]

A run of some layers of the real model, as shipped, that keeps two checkpoints. A rank is killed
while the second one is written in the background: the next attempt must resume from the first one,
repeat the steps since, save into the marked folder without writing into the files that are there,
and finish the run. Two folders are added after the kill: rotation must delete the one with this
run's mark and leave the one without. The result has, of each save, its bytes, the seconds for which
it stopped training and those until the seal; the seal and the mark of each folder; whether the
state loaded has each bit of the state saved; losses and gradient norms of the repeated steps;
whether the shards of the first and of the last checkpoint differ.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.storage import checkpoint
from launchers.system.process import adopt_orphans, kill_descendants
from scripts.dev import results
from tests.bench import host
from tests.bench.launcher import attempts, launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.launch import Launch
from tests.bench.launcher.run import Run, wait_for
from tests.bench.speed import shared as bench_shared

SEALED, MARKED, NEITHER = "sealed", "marked", "neither"
"""What a folder has: the seal of a complete checkpoint, only the mark of a save, or nothing."""
PROBE = ("swift_saves_probe.py", "saves_probe")
"""The plugin that measures, and its callback."""
PLUGINS = host.HOME / "plugins"
"""Folder of the plugins on the host: the manifests are rendered elsewhere."""
_WRITTEN = re.compile(r"checkpoint written step=(\d+) seconds=([\d.]+)")
_DELETED = re.compile(r"checkpoint deleted path=\S*(checkpoint-\d+)")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = launch.parser("saves")
    add = parser.add_argument
    add("--layers", type=int, default=2, help="of the real widths")
    add("--experts", type=int, default=0, help="of each layer; 0 is the real number")
    add("--every", type=int, default=6, help="steps between saves; at least 3")
    add("--steps", type=int, default=20, help="of the run; at least three saves")
    return parser.parse_args(words)


def launch_of(options: argparse.Namespace) -> Launch:
    """Return the run."""
    args = bench_shared.resumable_flags(options.steps, options.every)
    args |= {"callbacks": PROBE[1], "external_plugins": [str(PLUGINS / PROBE[0])]}
    model = launch_run.model_folder(options.layers, options.experts)
    return launch_run.on_one_node(options, model, args)


def probed(run: Run, what: str) -> dict[tuple[int, int], dict[int, dict[str, Any]]]:
    """Return the probe's lines by attempt and step, then by rank.

    ``what`` is ``save`` or ``load``.
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


def digests(folder: Path) -> set[str]:
    """Return the digests of the shards of a sealed checkpoint."""
    found = checkpoint.sealed_files(folder)[1]
    return {digest for name, digest in found.items() if name.endswith(".distcp")}


def marks(checkpoints: Path) -> dict[str, str]:
    """Return ``SEALED``, ``MARKED`` or ``NEITHER`` by folder; a sealed one keeps its mark."""
    return {
        folder.name: SEALED
        if (folder / checkpoint.COMPLETE).exists()
        else MARKED
        if (folder / checkpoint.SAVING).exists()
        else NEITHER
        for folder in sorted(checkpoints.glob("checkpoint-*"))
    }


def add_leftovers(cut: Path) -> None:
    """Add two folders without a seal, of earlier steps than a cut save.

    The first has the mark of this run, as a save that was cut; the second, a user's copy, has none.
    """
    step = checkpoint.step_of(cut)
    mark = json.loads((cut / checkpoint.SAVING).read_text(encoding="utf-8"))
    for number, is_marked in ((step - 1, True), (step - 2, False)):
        folder = cut.with_name(f"checkpoint-{number}")
        folder.mkdir()
        if is_marked:
            (folder / checkpoint.SAVING).write_text(json.dumps({**mark, "step": number}))
        (folder / "__0_0.distcp").write_bytes(b"cut")


def interrupted(run: Run, options: argparse.Namespace, state: dict[str, Any]) -> None:
    """Kill a rank while the second checkpoint is written; add what happens to ``state``."""
    stop = time.monotonic() + options.limit
    process = run.start()
    first, second = (run.checkpoints / f"checkpoint-{n * options.every}" for n in (1, 2))

    def is_writing() -> bool:
        has_begun = any(path.stat().st_size > 0 for path in second.rglob("*.distcp"))
        return has_begun and run.newest() == options.every

    wait_for("a write of the second checkpoint", is_writing, options.limit, process)
    found = launch_run.ranks(process.pid)
    if not found:
        raise TimeoutError("no training rank was found to be killed")
    killed = launch_run.kill(found[-1], signal.SIGKILL)
    left = sorted(second.rglob("*.distcp"))
    state |= {
        "bytes": size(first),
        "killed": killed,
        "newest": run.newest(),
        "left": [path.name for path in left],
        "marks": marks(run.checkpoints),
    }
    shards = digests(first)
    add_leftovers(second)
    with left[0].open("rb") as held:  # the name of an overwritten file is still there

        def is_unlinked() -> bool:
            return os.fstat(held.fileno()).st_nlink == 0

        wait_for("removal of what the cut save left", is_unlinked, stop - time.monotonic(), process)
        state["unlinked_s"] = round(time.time() - killed, 1)
    state["exit"] = process.wait(max(1.0, stop - time.monotonic()))
    state["marks_at_end"] = marks(run.checkpoints)
    last = run.checkpoints / f"checkpoint-{options.steps}"
    state["shards_differ"] = bool(shards) and not shards & digests(last)
    state["deleted"] = _DELETED.findall(run.log.read_text(errors="replace"))
    state["export"] = sum(p.stat().st_size for p in run.home.glob("export/*.safetensors"))


def figures(run: Run, every: int) -> dict[str, Any]:
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
    # the first step of an attempt compiles
    begins = {row.attempt: row.step for row in reversed(rows)}
    later = [row for row in rows if row.step > begins[row.attempt]]
    seconds = [row.seconds for row in later if row.step % every != 1]
    writing = [row.seconds for row in later if row.step % every == 1]
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
    old, new = ({row.step: row for row in rows if row.attempt == number} for number in (1, 2))
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
    problems = [str(record["error"])] if record.get("error") else []
    again, every = record.get("resumed", {}), record["every"]
    cut, saved = 2 * every, sorted({*range(every, record["steps"] + 1, every), record["steps"]})
    at_kill = {f"checkpoint-{every}": SEALED, f"checkpoint-{cut}": MARKED}
    at_end = {f"checkpoint-{step}": SEALED for step in saved[-2:]}
    at_end[f"checkpoint-{cut - 2}"] = NEITHER
    left = record.get("deleted", [])
    deleted = {f"checkpoint-{step}" for step in (*saved[:-2], cut - 1)}
    checks = {
        f"the run ended with {record.get('exit')}": record.get("exit") == 0,
        f"newest after the kill: {record.get('newest')}": record.get("newest") == every,
        f"seals and marks after the kill: {record.get('marks')}": record.get("marks") == at_kill,
        f"seals and marks at the end: {record.get('marks_at_end')}": record.get("marks_at_end")
        == at_end,
        f"rotation deleted {left}": {*left} == deleted,
        f"it continued with step {again.get('first')}": again.get("first") == every + 1,
        f"state loaded: {again.get('same_state')}": again.get("same_state") == {every: True},
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
    record |= {"every": options.every, "steps": options.steps}
    try:
        interrupted(run, options, record)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        record |= {"error": str(error), "tail": run.log.read_text(errors="replace")[-2500:]}
    finally:
        kill_descendants(timeout=20.0)
    record |= {**figures(run, options.every), "resumed": resumed(run)}
    if "killed" in record:
        record["recovery"] = attempts.recovery(run.rows(), record["killed"], 1, 2)
    record["complaints"] = complaints(record)
    results.put(options.results, options.label, record)
    shown = "bytes saves marks marks_at_end deleted unlinked_s recovery step_s"
    print(json.dumps({key: record.get(key) for key in shown.split()}), flush=True)
    print("\n".join(record["complaints"]) or "no bit was lost", record["resumed"])
    return 1 if record["complaints"] else 0

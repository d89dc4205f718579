"""Saves through the launcher: bytes and stops of training before and now, and exact resumes.

    python -m tests.gpu.pack_visits packed 2gpu                         # where Helm is
    python3 -m tests.gpu.bench_visit 2gpu TOKENIZER RESULTS saves       # on the host, with packed/
    python3 -m tests.gpu.launcher.saves TOKENIZER RESULTS --gpus 2 --layers 2 --profile FILE[,FILE]

Two runs of some layers of the real model, one after the other, with the same data and flags:

- ``before``: moments in fp32, safetensors at each save, blocking. It is stopped after its first
  save.
- ``now``: as shipped. A rank is killed while the second checkpoint is written in the background:
  the next attempt must resume from the first one, repeat the steps since, and finish the run.

RESULTS gets ``bench-<label>.json``: of each save its bytes, the seconds for which it stopped
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
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.system import threads
from launchers.system.process import adopt_orphans, kill_descendants
from tests.gpu import host
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench import shared as bench_shared
from tests.gpu.launcher import judge, launch
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import Launch
from tests.gpu.launcher.run import Run, wait_for
from tests.gpu.launcher.visit import begin

SAVES, STEPS = 6, 20
"""Steps between saves, and of the run."""
KINDS = ("before", "now")
PROBE = ("swift_saves_probe.py", "saves_probe")
"""The plugin that measures, and its callback."""
WIDE = "swift_wide_moments.py"
PLUGINS = host.HOME / "plugins"
"""Folder of the plugins on the host: the manifests are rendered elsewhere."""
_WRITTEN = re.compile(r"checkpoint written step=(\d+) seconds=([\d.]+)")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = launch.parser("saves")
    parser.add_argument("--layers", type=int, default=2, help="of the real widths")
    return parser.parse_args(words)


def launches(options: argparse.Namespace) -> list[Launch]:
    """Return both runs.

    Raises:
        ValueError: the profile cannot be read.
    """
    own = {
        **bench_shared.resumable_flags(STEPS, SAVES),
        "callbacks": PROBE[1],
    }
    found = bench_profiles.parse(options.profile)
    made = []
    for kind in KINDS:
        plugins = [PROBE[0], WIDE] if kind == "before" else [PROBE[0]]
        changes = {"recipe.saving": "blocking"} if kind == "before" else {}
        flags = {"save_safetensors": True} if kind == "before" else {}
        made.append(
            Launch(
                name=f"visit-{options.label}-{kind}",
                profile=bench_profiles.Profile(
                    name=found.name, files=found.files, changes={**found.changes, **changes}
                ),
                nodes=1,
                gpus_per_node=options.gpus,
                model=launch_run.model_folder(options.layers),
                data=launch_run.data_file(options.pairs),
                args={
                    **own,
                    **flags,
                    "external_plugins": [str(PLUGINS / each) for each in plugins],
                },
            )
        )
    return made


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


def before(run: Run, limit: float) -> dict[str, Any]:
    """Run until the step after the first save; return its figures; remove its checkpoints."""
    process = run.start()
    wait_for(
        "a step after the first save",
        lambda: run.newest() >= SAVES and any(row.step > SAVES for row in run.rows()),
        limit,
        process,
    )
    found = size(run.checkpoints / f"checkpoint-{SAVES}")
    launch_run.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    kill_descendants(timeout=20.0)
    shutil.rmtree(run.checkpoints)
    return {"bytes": found}


def now(run: Run, limit: float) -> dict[str, Any]:
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
        **judge.repeated(rows, 1, 2),
        "equal_steps": [
            step
            for step in both
            if old[step].values == new[step].values and old[step].grad_norm == new[step].grad_norm
        ],
    }


def complaints(record: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each check that failed."""
    found, problems = record.get("now", {}), []
    if record.get("error"):
        problems.append(str(record["error"]))
    again = found.get("resumed", {})
    checks = {
        f"the run ended with {found.get('exit')}": found.get("exit") == 0,
        f"newest after the kill: {found.get('newest')}": found.get("newest") == SAVES,
        f"it continued with step {again.get('first')}": again.get("first") == SAVES + 1,
        f"state loaded: {again.get('same_state')}": again.get("same_state") == {SAVES: True},
        f"first repeated loss apart by {again.get('first_apart')}": again.get("first_apart") == 0,
        "shards of two checkpoints are equal": bool(found.get("shards_differ")),
        "nothing was exported": bool(found.get("export")),
    }
    return problems + [what for what, holds in checks.items() if not holds]


def main(words: Sequence[str] | None = None) -> int:
    """Measure both runs; return 1 if a check fails, 2 if they cannot start."""
    options = arguments(words)
    if (visit := begin("saves", options, launches, layers=options.layers)) is None:
        return 2
    record: dict[str, Any] = {**visit.about, "layers": options.layers, "gpus_used": options.gpus}
    record |= {"prepared": visit.prepared, "profile": options.profile}
    shutil.copytree(bench_shared.PLUGINS, PLUGINS, dirs_exist_ok=True)
    adopt_orphans()
    for kind, flow, run in zip(KINDS, (before, now), visit.runs, strict=True):
        try:
            record[kind] = flow(run, options.limit)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            record["error"] = f"{kind}: {error}"
            record["tail"] = run.log.read_text(errors="replace")[-2500:]
        finally:
            kill_descendants(timeout=20.0)
        record[kind] = {**record.get(kind, {}), **figures(run)}
    record["now"]["resumed"] = resumed(visit.runs[1])
    problems = complaints(record)
    path = options.results / f"bench-{options.label}.json"
    path.write_text(json.dumps({**record, "complaints": problems}, indent=1) + "\n")
    for kind in KINDS:
        print(kind, record[kind].get("bytes"), record[kind]["saves"], flush=True)
    print("\n".join(problems) or "no bit was lost", record["now"]["resumed"])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(host.run(main))

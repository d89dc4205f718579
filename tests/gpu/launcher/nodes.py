"""Two "nodes" with half the GPUs each compared with one node, through the launcher.

    python3 -m tests.gpu.launcher.nodes TOKENIZER RESULTS --gpus 8 --profile FILE[,FILE]

Same model, data and flags; from clone to training, stopped after the last measured step. Both nodes
share this host, so NCCL uses NVLink in both: it measures the launcher (two agents and a gang), not
a network. RESULTS gets ``bench-<label>.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.metrics.rows import Row
from tests.gpu import host, session
from tests.gpu.bench import figures as bench_figures
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench import shared as bench_shared
from tests.gpu.launcher import launch
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import Launch
from tests.gpu.launcher.run import Run
from tests.gpu.launcher.visit import begin

KINDS = {"one": 1, "two": 2}
"""Nodes by name of a run."""
MORE = 20
"""Steps of the recipe; the runs are stopped before they save."""
LOGPS = ("logps/chosen", "logps/rejected")
APART = 1e-4
"""Relative tolerance of the first step's log-probabilities: the order of sums differs."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = launch.parser("nodes")
    parser.add_argument("--layers", type=int, default=8, help="of the real widths")
    parser.add_argument("--steps", type=int, default=10, help="that are measured")
    parser.add_argument("--warm-up", type=int, default=bench_figures.WARM_UP)
    return parser.parse_args(words)


def launches(options: argparse.Namespace) -> list[Launch]:
    """Return both runs.

    Raises:
        ValueError: the number of GPUs is odd, or the profile cannot be read.
    """
    if options.gpus % 2:
        raise ValueError(f"--gpus {options.gpus} can't be shared by two nodes; write an even one")
    own = bench_shared.own_flags(options.warm_up + options.steps + MORE)
    return [
        Launch(
            name=f"visit-{options.label}-{kind}",
            profile=bench_profiles.parse(options.profile),
            nodes=nodes,
            gpus_per_node=options.gpus // nodes,
            model=launch_run.model_folder(options.layers),
            data=launch_run.data_file(options.pairs),
            args=own,
        )
        for kind, nodes in KINDS.items()
    ]


def figures(rows: Sequence[Row], warm_up: int) -> dict[str, Any]:
    """Return a run's speed after the warm-up, and the values of its first step."""
    measured = rows[warm_up:]
    rates = [r.tokens_per_second_per_gpu for r in measured if r.tokens_per_second_per_gpu]
    if not rates:
        return {"steps": 0}
    return {
        "steps": len(rates),
        "world": rows[0].world,
        "tokens_per_second_per_gpu": bench_figures.spread(rates),
        "seconds": bench_figures.spread([row.seconds for row in measured]),
        "other_seconds": statistics.median(row.other_seconds for row in measured),
        "reserved_gib": max((row.reserved_gib or 0.0 for row in rows), default=0.0),
        "first": {name: rows[0].values.get(name) for name in ("loss", *LOGPS)},
    }


def ratio(runs: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the ratio of two nodes' tokens per second per GPU to one's; None if one is missing."""
    if not all(runs.get(kind, {}).get("steps") for kind in KINDS):
        return None
    one, two = (float(runs[k]["tokens_per_second_per_gpu"]["median"]) for k in KINDS)
    return round(two / one, 4)


def complaints(runs: Mapping[str, Mapping[str, Any]], steps: int) -> list[str]:
    """Return a sentence for each difference between the runs other than speed."""
    problems = []
    for kind in KINDS:
        seen = runs.get(kind, {})
        if seen.get("steps", 0) < steps:
            why = f"it ended by {seen.get('ended')}"
            problems.append(f"{kind}: {seen.get('steps', 0)} of {steps} steps were measured; {why}")
    if problems:
        return problems
    first = {kind: runs[kind]["first"] for kind in KINDS}
    for kind in KINDS:
        if not bench_figures.oracle([first[kind]], rpo=False)["ok"]:
            problems.append(f"{kind}: the first loss is {first[kind]['loss']}, not ln 2")
    for name in LOGPS:
        one, two = first["one"][name], first["two"][name]
        if abs(one - two) > APART * abs(one):
            problems.append(f"{name} of the first step is {one} on one node and {two} on two")
    return problems


def measure(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Run until the last measured step; return the figures."""
    wanted, began = options.warm_up + options.steps, time.time()
    why, code = session.run(
        run.command(),
        dict(os.environ),
        run.log,
        limit=options.limit,
        done=lambda: len(run.rows()) >= wanted,
    )
    rows = run.rows()
    result = {"ended": why, "exit": code, "wall_s": round(time.time() - began, 1)}
    if rows:
        result["first_step_s"] = round(rows[0].time - began, 1)
    return {
        **result,
        **figures(rows, options.warm_up),
        "phases": run.progress().get("phases", {}),
        "each_step": [[row.step, row.seconds, row.tokens] for row in rows],
        "tail": "" if len(rows) >= wanted else run.log.read_text(errors="replace")[-2500:],
    }


def main(words: Sequence[str] | None = None) -> int:
    """Measure both; return 1 if they differ in more than speed, 2 if they cannot start."""
    options = arguments(words)
    if (visit := begin("nodes", options, launches, layers=options.layers)) is None:
        return 2
    record = {**visit.about, "layers": options.layers, "gpus_used": options.gpus}
    record |= {"prepared": visit.prepared, "profile": options.profile, "runs": {}}
    for kind, run in zip(KINDS, visit.runs, strict=True):
        record["runs"][kind] = measure(run, options)
        record |= {"ratio": ratio(record["runs"])}
        _write(options.results / f"bench-{options.label}.json", record)
        print(kind, {k: v for k, v in record["runs"][kind].items() if k != "each_step"}, flush=True)
    print("\n".join(problems := complaints(record["runs"], options.steps)))
    print(f"two nodes do {record['ratio']} of one node's tokens per second and GPU")
    return 1 if problems else 0


def _write(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(host.run(main))

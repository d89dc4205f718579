"""Faults of one run through the launcher: SIGTERM in a save or in a step, and kill -9 of a rank.

    python3 -m tests.gpu.launcher.faults TOKENIZER RESULTS --gpus 2 --profile FILE[,FILE]
    [--stop-in save|step]

A tiny model, or one of ``--layers``, on two "nodes", or on one with 1 GPU, saves every fourth step.
The first start is stopped as soon as the folder of the second checkpoint appears: it must finish
this save; or after step 6, between two saves: it must save the step that it is in. The second start
must resume from it and loses a rank at step 10. The restart, in place or the JobSet's
(``restarts.inPlace=0`` in the profile), must resume from it, too, and finish the run. RESULTS gets
``bench-<label>.json``: exit codes, seconds to the next new step, losses of repeated steps, and for
an adapter whether the export is the merged model.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.system.process import adopt_orphans, kill_descendants
from tests.gpu import host
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench import shared as bench_shared
from tests.gpu.launcher import judge, launch, merged
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import Launch
from tests.gpu.launcher.run import Run, wait_for
from tests.gpu.launcher.visit import begin

STEPS, SAVES, STOP_AT, KILL_AT = 14, 4, 6, 10
"""Steps of the run, steps between saves, the steps after which it is stopped (``--stop-in step``)
and a rank is killed."""
STOPPED, KILLED, LAST = 1, 2, 3
"""Attempts: stopped by SIGTERM, loses a rank, finishes the run."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = launch.parser("faults")
    parser.add_argument("--layers", type=int, default=0, help="0 is a tiny model")
    parser.add_argument("--stop-in", choices=["save", "step"], default="save")
    return parser.parse_args(words)


def launches(options: argparse.Namespace) -> list[Launch]:
    """Return the run.

    Raises:
        ValueError: the GPUs cannot be divided, or the profile cannot be read.
    """
    nodes, each = launch.spread(options.gpus)
    own = {
        **bench_shared.resumable_flags(STEPS, SAVES),
        **bench_shared.SHORT_PACKS,
    }
    return [
        Launch(
            name=f"visit-{options.label}",
            profile=bench_profiles.parse(options.profile),
            nodes=nodes,
            gpus_per_node=each,
            model=launch_run.model_folder(options.layers),
            data=launch_run.data_file(options.pairs),
            args=own,
        )
    ]


def stop(
    run: Run, process: subprocess.Popen[bytes], limit: float, moment: str = "save"
) -> dict[str, Any]:
    """Send SIGTERM; return the state afterwards.

    Args:
        run: the run.
        process: its local runner.
        limit: seconds to wait for the moment.
        moment: ``save``, when the second checkpoint is started, or ``step``, after step 6.
    """

    def is_saving() -> bool:
        return run.newest() > 0 and bool(run.unsealed())

    def is_between_saves() -> bool:
        return run.newest() > 0 and not run.unsealed() and last_step(run) >= STOP_AT

    if moment == "save":
        wait_for("a second checkpoint", is_saving, limit, process)
    else:
        wait_for(f"step {STOP_AT}", is_between_saves, limit, process)
    newest, started, step = run.newest(), run.unsealed(), last_step(run)
    sent = launch_run.kill(process.pid, signal.SIGTERM)
    code = process.wait(120)
    return {
        "exit": code,
        "seconds": round(time.time() - sent, 1),
        "pods": [end["code"] for end in run.ends()],
        "ends": run.ends(),
        "started": started,
        "step": step,
        "unsealed": run.unsealed(),
        "newest_before": newest,
        "newest": run.newest(),
    }


def last_step(run: Run, attempt: int = STOPPED) -> int:
    """Return the last step that an attempt has finished; 0 before its first."""
    return max((row.step for row in run.rows() if row.attempt == attempt), default=0)


def kill_rank(run: Run, process: subprocess.Popen[bytes], limit: float) -> dict[str, Any]:
    """Kill the last rank after the second attempt has finished step 10."""

    wait_for(f"step {KILL_AT}", lambda: last_step(run, KILLED) >= KILL_AT, limit, process)
    found = launch_run.ranks(process.pid)
    if not found:
        raise TimeoutError("no training rank was found to be killed")
    killed = launch_run.kill(found[-1], signal.SIGKILL)
    return {"killed": killed, "ranks": len(found), "newest": run.newest()}


def flow(run: Run, limit: float, record: dict[str, Any], moment: str = "save") -> None:
    """Inject both faults into the run; update the record after each.

    Raises:
        TimeoutError, subprocess.TimeoutExpired: an expected event did not happen in time.
    """
    process = run.start()
    record["stop"] = stop(run, process, limit, moment)
    process = run.start()
    record["kill"] = kill_rank(run, process, limit)
    record["exit"] = process.wait(limit)
    record["ends"] = run.ends()


def conclude(run: Run, record: dict[str, Any]) -> None:
    """Add the figures of the metrics rows."""
    rows = run.rows()
    if "stop" in record:
        record["stop"]["repeated"] = judge.repeated(rows, STOPPED, KILLED)
    if "kill" in record:
        seen = record["kill"]
        seen["repeated"] = judge.repeated(rows, KILLED, LAST)
        seen |= judge.recovery(rows, seen["killed"], KILLED, LAST)
        phases = run.progress().get("phases", {})
        seen["in_place"] = run.progress().get("restarts_in_place", [])
        seen["phases_s"] = {name: round(at - seen["killed"], 1) for name, at in phases.items()}
    export = run.home / "export"
    if (adapter := merged.adapter_of(export)) is not None:
        model = launch_run.model_folder(record["layers"])
        record["merged"] = merged.compare(export, adapter, model)
    record["last_step"] = max((row.step for row in rows), default=0)
    record["each_step"] = [
        [row.attempt, row.step, round(row.time, 2), row.values.get("loss")] for row in rows
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Run both faults; return 1 if a check fails, 2 if the run cannot start."""
    options = arguments(words)
    if (visit := begin("faults", options, launches, layers=options.layers)) is None:
        return 2
    run = visit.runs[0]
    record: dict[str, Any] = {**visit.about, "gpus_used": options.gpus, "prepared": visit.prepared}
    record["profile"], record["layers"] = options.profile, options.layers
    record["restarts_in_place"] = visit.launches[0].profile.values()["restarts"]["inPlace"]
    adopt_orphans()
    try:
        flow(run, options.limit, record, options.stop_in)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        record["error"] = str(error)
        record["tail"] = run.log.read_text(errors="replace")[-2500:]
    finally:
        kill_descendants(timeout=20.0)
        conclude(run, record)
        problems = judge.complaints(record, STEPS)
        _write(options.results / f"bench-{options.label}.json", {**record, "complaints": problems})
    print(
        "\n".join(problems) or "both faults were survived", record.get("stop"), record.get("kill")
    )
    return 1 if problems else 0


def _write(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(host.run(main))

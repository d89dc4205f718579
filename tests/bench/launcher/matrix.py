"""The faults of ``tests/faults/catalogue/gpu.yaml``, one after the other in a run of the launcher.

    python3 -m tests.bench matrix TOKENIZER RESULTS --gpus 2 --profile FILE[,FILE]
    [--only NAME,NAME] [--seeds N] [--first-seed N] [--layers N] [--settle SECONDS]
    [--slow SECONDS] [--limit SECONDS]

A tiny model, or one of ``--layers``, on two "nodes", or on one with 1 GPU.
``plugins/swift_fault.py`` injects the next fault after each new checkpoint, so that every attempt
gets further and the gang starts again in place; a run that ends before its last fault is followed
by a run with the others. The result says what happened, and what differs from
the catalogue, and how long saves and the end of the run took. A fault takes 40 s; the limit is that
of all.
"""

import argparse
import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launchers.metrics.rows import Row
from launchers.stages.attempt_record import PEER_ENDED
from launchers.system.process import adopt_orphans, descendants, kill_descendants
from scripts.dev import results
from tests.bench.launcher import attempts, launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.ending import Seals, ending
from tests.bench.launcher.launch import WORKSPACE, Launch
from tests.bench.launcher.run import Run
from tests.bench.speed import shared as bench_shared
from tests.faults import catalogue
from tests.faults.catalogue import Fault

SAVES = 6
"""Steps between checkpoints. A hang's limit is five times the median step of the attempt, whose
first step is long: it needs three more before the fault."""
EVALUATIONS = {"eval_steps": SAVES // 2, "split_dataset_ratio": 0.1}
"""Flags of a run with a fault in an evaluation."""
PLUGIN = bench_shared.PLUGINS / "swift_fault.py"
PLACED = WORKSPACE / "plugins" / PLUGIN.name
"""Its path in the manifest, which may have been packed on another machine."""
FOLDER = WORKSPACE / "fault"
"""Holds ``faults.json`` for the plugin, and for each injected fault a note with the time."""
ENDLESS_SECONDS = 90.0
"""Time after a fault without any further step after which a run counts as endless."""

START_SECONDS = 120.0
"""Time for the start and the end of a run, in addition to that of its faults."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A fault with what the seed chose."""

    fault: Fault
    rank: int
    step: int
    """Completed steps before it, or the step whose save it is in."""
    settle: float = 0.0
    """Seconds for which training stands still before it, so that a standby gets ready."""

    def document(self) -> dict[str, Any]:
        """Return what the plugin reads."""
        own = {"name": self.fault.name, "rank": self.rank, "step": self.step}
        return {**self.fault.inject, **own, "settle": self.settle}


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    made = launch.parser("matrix")
    made.add_argument("--only", default="", help="names of faults, with commas; all by default")
    made.add_argument("--seeds", type=int, default=1, help="number of runs with all faults")
    made.add_argument("--first-seed", type=int, default=0)
    made.add_argument("--layers", type=int, default=0, help="0 is a tiny model")
    made.add_argument("--settle", type=float, default=0.0, help="seconds before each fault")
    shown = "more seconds for start, restart and end of a large model"
    made.add_argument("--slow", type=float, default=0.0, help=shown)
    return made.parse_args(words)


def chosen(options: argparse.Namespace) -> list[Fault]:
    """Return the faults that are asked for and that so many ranks can have."""
    only = [name for name in options.only.split(",") if name]
    return [
        each
        for each in catalogue.load("gpu")
        if each.ranks <= options.gpus and (not only or each.name in only)
    ]


def steps_of(faults: Sequence[Fault]) -> int:
    """Return the steps of a run with these faults: after the last one there is a new step."""
    has_fault_in_save = any(each.inject["at"] == "save" for each in faults)
    return SAVES * (len(faults) + 1 + has_fault_in_save)


def launch_of(options: argparse.Namespace) -> Launch:
    """Return the run, which is the same for all faults."""
    faults = chosen(options)
    about = {"steps": steps_of(faults), "saves": SAVES, "settle": options.settle}
    made = launch_run.with_faults(options, PLACED, "fault", **about)
    evaluates = any(each.inject["at"] == "evaluation" for each in faults)
    args = {**made.args, **(EVALUATIONS if evaluates else {})}
    return replace(made, model=launch_run.model_folder(options.layers), args=args)


def schedule(
    faults: Sequence[Fault], seed: int, settle: float = 0.0, ranks: int = 2
) -> list[Planned]:
    """Place the faults, one after each checkpoint; the seed chooses order, ranks and steps.

    A fault before the first checkpoint comes first, one that ends the run last.
    """
    order = random.Random(seed).sample(faults, len(faults))
    order.sort(key=lambda each: (not _is_first(each), each.expect.outcome == "failed"))
    number, planned = 0 if order and _is_first(order[0]) else 1, []
    for fault in order:
        chance = random.Random(f"{fault.name} {seed}")
        chosen = {key: chance.choice(values) for key, values in sorted(fault.spread.items())}
        rank = chosen["rank"] % ranks
        after = SAVES if fault.inject["at"] == "save" else chosen["step"]
        step = SAVES * number + after
        planned.append(Planned(fault=fault, rank=rank, step=step, settle=settle))
        number += 1
    return planned


def _is_first(fault: Fault) -> bool:
    return bool(fault.inject.get("first", False))


def inject(
    run: Run, planned: Sequence[Planned], deadline: float, seals: Seals, slow: float = 0.0
) -> tuple[str, int | None, int]:
    """Run once with these faults.

    Files of an earlier run are removed; ``deadline`` is Unix time.

    Returns:
        ``ended``, ``endless`` or ``cut`` by the deadline; the exit code; and the number of
        processes that were left.
    """
    shutil.rmtree(run.home, ignore_errors=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    text = json.dumps([each.document() for each in planned])
    (FOLDER / "faults.json").write_text(text, encoding="utf-8")
    process = run.start()
    end = _await_end(run, process, deadline, seals, ENDLESS_SECONDS + slow)
    left = len(descendants(process.pid)) if end == "ended" else 0
    if end != "ended":
        kill_descendants(timeout=20.0)
        process.wait(30)
    return end, process.returncode, left


def _await_end(
    run: Run, process: subprocess.Popen[bytes], deadline: float, seals: Seals, endless: float
) -> str:
    """Wait for the end; ``endless`` without a step after a fault, ``cut`` at the deadline."""
    while process.poll() is None:
        seals.look()
        now = time.time()
        notes = [note["time"] for note in injected().values()]
        steps = [row.time for row in run.rows()]
        is_still = bool(notes) and now - max([*notes, *steps]) > endless
        if is_still and not run.ends():
            return "endless"
        if now > deadline:
            return "cut"
        time.sleep(0.5)
    seals.look()
    return "ended"


def injected() -> dict[str, dict[str, Any]]:
    """Return the notes of the plugin: time, rank, step and attempt by the name of the fault."""
    return {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.note")}


def observed(run: Run, fault: Fault, notes: dict[str, dict[str, Any]], end: str) -> dict[str, Any]:
    """Return outcome, first cause and times of one injected fault."""
    rows, note = run.rows(), notes[fault.name]
    attempt = int(note["attempt"])
    folders = (path.name for path in (run.home / "attempts").glob("*"))
    later = min((int(n) for n in folders if n.isdecimal() and int(n) > attempt), default=0)
    is_last = note["time"] == max(e["time"] for e in notes.values() if e["attempt"] == attempt)
    root = first_cause(run.home / "attempts" / str(attempt)) if is_last else {}
    found = {
        "name": fault.name,
        "outcome": outcome(rows, note, later, end, ended=bool(root)),
        **{key: root.get(key) for key in ("code", "class", "id")},
        "cause": str(root.get("cause", ""))[:300],
        "injected": note,
    }
    if found["outcome"] == "resumed":
        found |= attempts.recovery(rows, note["time"], attempt, later)
        found["repeated"] = attempts.repeated(rows, attempt, later)
    return found


def outcome(rows: Sequence[Row], note: dict[str, Any], later: int, end: str, *, ended: bool) -> str:
    """Return the outcome of one fault.

    ``later``: number of the next attempt, 0 without one.
    """
    after = [row for row in rows if row.time > note["time"]]
    own = [row.step for row in rows if row.attempt == note["attempt"]]
    if not ended and max(own, default=0) >= note["step"]:
        return "unaffected"
    if any(row.attempt == later for row in after):
        return "resumed" if any(row.step > max(own, default=0) for row in after) else "endless"
    return "failed" if end == "ended" else end


def first_cause(attempt: Path) -> dict[str, Any]:
    """Return the record of the rank that names a cause of its own; empty without a record."""
    records = [json.loads(path.read_text()) for path in sorted(attempt.glob("termination-*.json"))]
    records.sort(key=lambda record: record.get("id") in PEER_ENDED)
    return dict(records[0]) if records else {}


def complaints(fault: Fault, seen: dict[str, Any]) -> Iterator[str]:
    expect = fault.expect
    if seen["outcome"] != expect.outcome:
        yield f"outcome {seen['outcome']}, not {expect.outcome}"
    if expect.code is not None and seen["code"] != int(expect.code):
        yield f"code {seen['code']}, not {int(expect.code)}"
    if expect.failure_class is not None and seen["class"] != expect.failure_class:
        yield f"class {seen['class']}, not {expect.failure_class}"
    if expect.id and seen["id"] != expect.id:
        yield f"id {seen['id']}, not {expect.id}"
    if seen.get("orphans"):
        yield f"{seen['orphans']} processes were left"
    apart = seen.get("repeated", {}).get("first_apart")
    if apart is not None and not apart <= attempts.SAME:
        yield f"the first repeated loss differs by {apart:g}"


def matrix(
    run: Run,
    faults: Sequence[Fault],
    seed: int,
    deadline: float,
    settle: float = 0.0,
    ranks: int = 2,
    slow: float = 0.0,
) -> Iterator[dict[str, Any]]:
    pending = list(faults)
    while pending:
        planned = schedule(pending, seed, settle, ranks)
        limit = time.time() + START_SECONDS + slow
        limit += sum(each.fault.seconds + settle for each in planned)
        seals = Seals(run.home)
        end, code, left = inject(run, planned, min(limit, deadline), seals, slow)
        notes = injected()
        missed = [] if notes else planned[:1]
        if end == "cut":
            missed = [each for each in planned if each.fault.name not in notes]
        for each in missed:
            pending.remove(each.fault)
            about = {"name": each.fault.name, "seed": seed, "exit": code}
            yield {**about, "problems": [f"it was not injected; the run was {end}"]}
        for each in planned:
            if each.fault.name in notes:
                pending.remove(each.fault)
                seen = observed(run, each.fault, notes, end)
                seen |= {"seed": seed, "exit": code, "orphans": left}
                seen |= {"ending": ending(run.home, seals.seen)} if each is planned[-1] else {}
                yield {**seen, "problems": list(complaints(each.fault, seen))}


def main(words: Sequence[str] | None = None) -> int:
    """Inject all faults; return 1 if one differs, 2 if the run cannot start."""
    options = arguments(words)
    if (begun := launch_run.begin("matrix", options, launch_of)) is None:
        return 2
    run, record = begun
    PLACED.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PLUGIN, PLACED)
    adopt_orphans()
    faults, seeds = chosen(options), range(options.first_seed, options.first_seed + options.seeds)
    record |= {"floors": launch_run.FLOORS, "settle_s": options.settle, "runs": []}
    deadline = time.time() + options.limit
    for seed in seeds:
        given = options.settle, options.gpus, options.slow
        for seen in matrix(run, faults, seed, deadline, *given):
            record["runs"].append(seen)
            record["standbys_used"] = run.log.read_text(errors="replace").count("standby used")
            results.put(options.results, options.label, record)
            shown = seen.get("outcome"), seen.get("new_step_s"), seen.get("cause")
            print(seen["name"], seed, *shown, seen["problems"] or "as declared", flush=True)
            print(json.dumps(seen.get("ending")), flush=True)
    return 1 if any(each["problems"] for each in record["runs"]) else 0

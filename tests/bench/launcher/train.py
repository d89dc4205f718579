"""A short run through the launcher on rows of one form: what it reads, and whether it trains.

    python3 -m tests.bench train TOKENIZER RESULTS --gpus 1 --profile FILE[,FILE] [--rows FORM]
    [--layers N] [--steps N] [--without WEIGHT] [--expect ID]

The rows have the same pairs in each form of ``FORMS``; ``--cut`` of them have no rejected answer.
The run must read all rows, keep the others, train the steps and end with 0; with ``--expect`` it
must train no step and end with a cause of this id.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.progress.training import PACKING
from scripts.dev import results
from tests.bench import session
from tests.bench.launcher import launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.launch import WORKSPACE, Launch
from tests.bench.launcher.run import Run
from tests.bench.speed import shared as bench_shared

READER = "rows have a built-in reader"
"""What the launcher and ms-swift's process log where a form is read."""

Row = dict[str, Any]


def ultrafeedback(row: Row, number: int) -> Row:
    """Return a row as in HuggingFaceH4/ultrafeedback_binarized."""
    first, chosen = row["messages"]
    rejected = {"role": "assistant", "content": row["rejected_response"]}
    return {
        "prompt": first["content"],
        "prompt_id": f"{number:064x}",
        "chosen": [first, chosen],
        "rejected": [first, rejected],
        "messages": [first, chosen],
        "score_chosen": 8.0,
        "score_rejected": 5.5,
    }


def labelled(row: Row, number: int) -> Row:
    """Return every second row's rejected answer as undesirable, for KTO."""
    first, chosen = row["messages"]
    answer = row["rejected_response"] if number % 2 else chosen["content"]
    turns = [first, {"role": "assistant", "content": answer}]
    return {"messages": turns, "label": number % 2 == 0}


FORMS: Mapping[str, Callable[[Row, int], Row]] = {
    "pairs": lambda row, _: row,
    "ultrafeedback": ultrafeedback,
    "sft": lambda row, _: {"messages": row["messages"]},
    "kto": labelled,
}
REJECTED = {"pairs": "rejected_response", "ultrafeedback": "rejected"}
"""The column without which a row is no pair."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = launch.parser("train")
    add = parser.add_argument
    add("--rows", choices=[*FORMS], default="pairs", help="the form of the rows")
    add("--cut", type=int, default=0, help="rows without a rejected answer")
    add("--layers", type=int, default=0, help="0 is a tiny model")
    add("--steps", type=int, default=6, help="of the run")
    add("--without", default="", metavar="WEIGHT", help="left out of the model's files")
    add("--expect", default="", metavar="ID", help="of the cause that ends the run")
    options = parser.parse_args(words)
    if options.cut and options.rows not in REJECTED:
        parser.error(f"--cut needs --rows {' or '.join(REJECTED)}")
    return options


def rows_file(options: argparse.Namespace) -> Path:
    """Return the path of the rows on the host."""
    return WORKSPACE / f"rows-{options.rows}-{options.pairs}-{options.cut}.jsonl"


def launch_of(options: argparse.Namespace) -> Launch:
    """Return the run.

    Raises:
        ValueError: the profile cannot be read.
    """
    model = launch_run.model_folder(options.layers, without=options.without)
    args = bench_shared.resumable_flags(options.steps, options.steps) | bench_shared.SHORT_PACKS
    return launch_run.on_one_node(options, model, args, data=rows_file(options))


def write_rows(pairs: Path, file: Path, options: argparse.Namespace) -> None:
    """Write the pairs of a file in the form of the command line, the cut rows evenly spread."""
    form, held = FORMS[options.rows], pairs.read_text(encoding="utf-8").splitlines()
    every = len(held) // options.cut if options.cut else len(held) + 1
    with file.open("w", encoding="utf-8") as stream:
        for number, line in enumerate(held):
            row = form(json.loads(line), number)
            if number % every == every - 1:
                row |= {REJECTED[options.rows]: None}
            stream.write(json.dumps(row) + "\n")


def figures(run: Run) -> dict[str, Any]:
    """Return what the last attempt has counted, its steps, and the readers in the log."""
    found = sorted(run.home.glob(f"attempts/*/{PACKING}"))
    packing = json.loads(found[-1].read_text(encoding="utf-8")) if found else {}
    wanted = ("rows_read", "rows_kept", "rows_dropped", "pairs_doubtful", "rows", "packs")
    rows = run.rows()
    log = run.log.read_text(encoding="utf-8", errors="replace")
    return {
        "packing": {key: packing[key] for key in wanted if key in packing},
        "each_step": [[row.step, round(row.seconds, 3), row.values, row.grad_norm] for row in rows],
        "readers": sorted(
            {line[line.index(READER) :] for line in log.split("\n") if READER in line}
        ),
        "ends": run.ends(),
        "export": sum(path.stat().st_size for path in run.home.glob("export/*.safetensors")),
    }


def complaints(record: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each check that failed."""
    steps, packing = [row[0] for row in record["each_step"]], record["packing"]
    if record["expect"]:
        ids = [end.get("id") for end in record["ends"]]
        checks = {
            f"the cause is {ids}": record["expect"] in ids,
            f"it ended with {record['exit']}": bool(record["exit"]),
            f"it trained the steps {steps}": not steps,
        }
    else:
        kept = record["rows_written"] - record["rows_cut"]
        readers = record["readers"]
        checks = {
            f"it ended with {record['exit']}: {record['ends']}": record["exit"] == 0,
            f"it trained the steps {steps}": steps == [*range(1, record["steps"] + 1)],
            f"rows read: {packing}": packing.get("rows_read") == record["rows_written"],
            f"rows kept: {packing}": packing.get("rows_kept") == kept,
            f"built-in readers: {readers}": bool(readers) == (record["form"] == "ultrafeedback"),
            "nothing was exported": bool(record["export"]),
        }
    return [what for what, holds in checks.items() if not holds]


def main(words: Sequence[str] | None = None) -> int:
    """Train; return 1 if a check fails, 2 if the run cannot start."""
    options = arguments(words)
    if (begun := launch_run.begin("train", options, launch_of)) is None:
        return 2
    run, record = begun
    write_rows(launch_run.data_file(options.pairs), rows_file(options), options)
    began = time.time()
    why, code = session.run(run.command(), dict(os.environ), run.log, limit=options.limit)
    record |= {"form": options.rows, "rows_written": options.pairs, "rows_cut": options.cut}
    record |= {"expect": options.expect, "steps": options.steps, "ended": why, "exit": code}
    record |= {"wall_s": round(time.time() - began, 1), **figures(run)}
    problems = record["complaints"] = complaints(record)
    record["tail"] = run.log.read_text(errors="replace")[-2500:] if problems else ""
    results.put(options.results, options.label, record)
    shown = ("exit", "wall_s", "packing", "readers", "ends")
    print(json.dumps({key: record[key] for key in shown}), flush=True)
    print("\n".join(problems) or f"{options.label}: as expected", flush=True)
    return 1 if problems else 0

"""Fake torchrun of the bench's tests: writes the files of probe, trainer and metrics.

``fake_ranks.py WORLD STEPS MODE FOLDER``; each rank's file is complete, one in three steps slow.
MODE ``reports`` writes the product's metrics too, without all of them, and the note of a reference
pass; ``passes`` the rounds of one, and its note; ``hangs`` stays after the last step, with a
process in a session of its own; ``loads`` has loaded one of the launcher's modules; ``traces``
leaves what the tracer writes.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GIB = 2**30


def add(path: Path, **row: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


def add_pass(path: Path, rank: int, world: int) -> None:
    who = {"rank": rank, "world": world}
    add(path, **who, part="start", seconds=2.0)
    for number, seconds in enumerate((7.0, 2.0, 60.0, 2.0)):
        done = {"microbatches": 16, "tokens": 4000 * (rank % 2), "data_seconds": 0.0}
        traced = {"traced": number == 2, "reserved": GIB}
        add(path, **who, part="round", seconds=seconds, **done, **traced)
    add(path, **who, part="end", seconds=0.5)


def main() -> None:
    world, steps, mode, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    for rank in range(world):
        path = folder / f"rank-{rank}.jsonl"
        place = {"rank": rank, "world": world, "tp": rank % 2, "pp": 0, "cp": 0, "dp": rank // 2}
        modules = ["launchers.training.loading"] if mode == "loads" else []
        start = {"imported": time.time(), "loaded": time.time(), "before_training": GIB}
        add(path, **place, **start, launchers=modules)
        for step in range(1, steps + 1):
            seconds = 60.0 if step == 1 else 2.0 + (step % 3 == 0)
            counted = {"tokens": 4000, "squares": 4_000_000, "sequences": 4}
            peaks = {"allocated": 2 * GIB, "reserved": (3 + rank) * GIB}
            add(path, step=step, time=time.time(), seconds=seconds, **counted, **peaks)
    for step in range(1, steps + 1):
        loss = 0.69314718 if mode != "wrong" else 0.75
        row = {"loss": loss, "load_balancing_loss": 1.02, "iteration": f"{step}/{steps}"}
        add(folder / "out" / "logging.jsonl", **row)
        metrics = {"step": step, "seconds": 2.0, "data_seconds": 0.01 * step, "tokens": 8000}
        if mode == "reports":
            add(folder / "metrics.jsonl", **metrics)
    if mode == "passes":
        for rank in range(world):
            add_pass(folder / f"pass-{rank}.jsonl", rank, world)
    if mode in ("reports", "passes"):
        note = {"from": "pass", "seconds": 4.0, "tokens": 48_000, "pairs": 60}
        text = json.dumps({**note, "tokens_per_second_per_gpu": 3000.0})
        (folder / "reference.json").write_text(text, encoding="utf-8")
    if mode == "traces":
        (folder / "trace.json.gz").write_bytes(b"trace")
        found = {"rank": 0, "busy_ms": 3.0, "kernels": 1, "top": [["nccl_sum", 2.0, 1]]}
        (folder / "kernels-0.json").write_text(json.dumps(found))
    print("all steps", flush=True)
    if mode == "fails":
        print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
        sys.exit(1)
    if mode == "hangs":
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (folder / "child").write_text(str(child.pid))
        time.sleep(600)


if __name__ == "__main__":
    main()

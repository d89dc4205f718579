"""A run's files as the launcher writes them: two attempts, a lost step, a plan, evaluations."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.storage import checkpoint

STEP_SECONDS = 12.0


def make_run(root: Path, run: str, now: float) -> Path:
    """Write a run in step 34 of 107, resumed at 24 after a preemption; return its folder."""
    home = root / "runs" / run
    for number, resume in ((1, 0), (2, 24)):
        folder = home / "attempts" / str(number)
        folder.mkdir(parents=True)
        (folder / "start.json").write_text(json.dumps({"resume": resume}))
        (folder / "node-0.log").write_text(f"attempt {number} of rank 0\nloss 0.6\n")
    end = {"code": 137, "class": "infra", "stage": "train", "rank": 1, "step": 26, "id": "killed"}
    record = {**end, "cause": "a GPU fell off the bus", "remedy": "drain the node"}
    (home / "attempts" / "1" / "termination-1.json").write_text(json.dumps(record))
    begin = now - 3600
    first = [_row(step, 1, begin + 60 + step * STEP_SECONDS) for step in range(1, 27)]
    second = [_row(step, 2, now - (34 - step) * STEP_SECONDS - 4) for step in range(25, 35)]
    values = {"loss": 0.58, "rewards/accuracies": 0.74, "rewards/margins": 0.131}
    seen = Evaluation(step=30, total=107, attempt=2, time=now, seconds=9.0, values=values)
    lines = [*map(rows.line, [*first, *second]), evaluations.line(seen)]
    (home / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (home / "progress.json").write_text(json.dumps(_progress(now, begin)))
    plan = {
        "speed": {"step_seconds": 11.4, "tokens_per_second_per_gpu": 12900.0, "mfu": 0.258},
        "memory": {"total_gib": 68.0, "card_gib": 79.2},
    }
    (home / "plan.json").write_text(json.dumps(plan))
    for step in (24, 32):
        folder = home / "checkpoints" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"x" * 4096)
        sealed = checkpoint.seal(folder, step)
        assert sealed is not None
        os.utime(sealed, (now - 240, now - 240))
    return home


def _row(step: int, attempt: int, when: float) -> Row:
    values = {"loss": 0.693 - 0.003 * step, "rewards/margins": 0.004 * step}
    made = Row(step=step, total=107, attempt=attempt, time=when, seconds=STEP_SECONDS)
    return replace(made, reserved_gib=71.2, values=values)


def _progress(now: float, begin: float) -> dict[str, Any]:
    best = {"step": 30, "loss": 0.58, "accuracy": 0.74, "margin": 0.131}
    stages = {
        "clone": {"state": "up to date", "why": "", "seconds": 0.2},
        "download": {"state": "up to date", "why": "", "seconds": 1.4},
        "convert": {"state": "skipped", "why": "SKIP_CONVERT=1", "seconds": 0.0},
        "train": {"state": "running", "why": "", "seconds": 0.0},
    }
    rows: dict[str, Any] = {"rows_read": 40000, "rows_kept": 39120}
    rows |= {"rows_dropped": {"longer than max_length": 880}, "pairs_doubtful": {"equal sides": 12}}
    training = {"step": 34, "total": 107, "attempt": 2, "eta_seconds": 876.0, "rows": rows}
    training |= {"step_seconds": STEP_SECONDS, "loss": 0.591, "margin": 0.136, "accuracy": 0.71}
    training |= {"tokens_per_second_per_gpu": 13180.0, "mfu": 0.263, "goodput": 0.113}
    training["held_out"] = {"first": best, "last": best, "best": best, "by": "loss"}
    made = {"run": "dpo", "state": "running", "stage": "train", "attempt": 2, "stages": stages}
    times = {"first_started": begin, "started": now - 300, "updated": now}
    phases = {"container": now - 300, "gang": now - 200}
    return {**made, "training": training, "phases": phases, **times}

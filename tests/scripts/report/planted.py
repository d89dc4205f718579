"""Folders of runs, written with the launcher's own writers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit, LaunchError
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.stages import attempt_record
from launchers.storage import checkpoint

BEGAN = 1_790_000_000.0
STEP_SECONDS = 2.0
HOSTILE = "\"'><script>hacked=1</script><img src=x onerror=hacked=1>&lt;b&gt;]]>--><!--|`\x00\ud800"
"""Text that would break out of markup, scripts, comments and tables if it were not escaped."""


def row(step: int, attempt: int, time: float, total: int = 20) -> Row:
    rewards = {"margins": step / 10, "accuracies": 0.9, "chosen": step / 20, "rejected": -step / 20}
    values = {
        "loss": 0.7 - step / 40,
        **{f"rewards/{name}": each for name, each in rewards.items()},
    }
    gpu: Any = {"mfu": 0.25, "fill": 0.98, "allocated_gib": 60.0, "reserved_gib": 66.0 + step / 10}
    gpu |= {"tokens_per_second_per_gpu": 125.0 + step, "tokens": 1000, "world": 4}
    model: Any = {"expert_load": 1.2, "expert_load_worst": 1.9, "grad_norm": 3.0}
    model |= {"learning_rate": 1e-5, "values": values}
    when: Any = {"attempt": attempt, "time": time, "seconds": STEP_SECONDS}
    return Row(step=step, total=total, **when, **gpu, **model)


def lines() -> Iterator[str]:
    """Two attempts: the second trains steps 9 to 12 again, and waits 60 s before."""
    yield evaluations.line(evaluation(0, 1, BEGAN + 28))
    for step in range(1, 13):
        yield rows.line(row(step, 1, BEGAN + 30 + STEP_SECONDS * step))
    yield evaluations.line(evaluation(8, 2, BEGAN + 130))
    for step in range(9, 21):
        yield rows.line(row(step, 2, BEGAN + 140 + STEP_SECONDS * (step - 8)))
    yield evaluations.line(evaluation(20, 2, BEGAN + 170))


def evaluation(step: int, attempt: int, time: float) -> Evaluation:
    rewards = {"rewards/accuracies": step / 20, "rewards/margins": step / 10}
    values = {"loss": 0.69 - step / 40, **rewards}
    return Evaluation(step=step, total=20, attempt=attempt, time=time, seconds=3.0, values=values)


def plant(root: Path, name: str = "dpo-42", text: str = "") -> Workspace:
    """Write a run below a workspace; ``text`` stands wherever a run has text of its own."""
    work = Workspace(root=root, run=name)
    for number in (1, 2):
        folder = work.attempts / str(number)
        attempt_record.begin(folder, None)
        began = BEGAN + (10 if number == 1 else 110)
        (folder / "phases-0.json").write_text(json.dumps({"process": began}))
        finding = {"check": f"disk{text}", "state": "ok", "seen": f"61 GB{text}"}
        report = {"rank": 0, "pod": f"p{text}", "node": f"n{text}", "passed": True}
        (folder / "preflight-0.json").write_text(json.dumps(report | {"findings": [finding]}))
        (folder / "packing.json").write_text(json.dumps({f"rows{text}": f"1{text}"}))
    error = LaunchError(Exit.PREEMPTED, f"stopped{text}", f"resumes{text}", id=f"preempted{text}")
    attempt_record.end(work, work.attempts / "1", 0, error)
    work.metrics.write_text("".join(f"{line}\n" for line in lines()))
    saved = work.checkpoints / "checkpoint-20"
    saved.mkdir(parents=True)
    patch: dict[str, Any] = {"effect": f"speed{text}", "state": "installed"}
    patch["functions"] = {f"a:b{text}": f"0{text}"}
    features = {"patches": {f"tokens{text}": patch}, "versions": {f"torch{text}": f"2.11{text}"}}
    (saved / checkpoint.FEATURES).write_text(json.dumps(features))
    checkpoint.seal(saved, 20)
    work.progress.write_text(json.dumps(progress(name, text)))
    work.plan.write_text(json.dumps(plan(text)))
    work.inputs.write_text(json.dumps({f"download hf://o/m@main{text}": f"abc{text}"}))
    return work


def progress(name: str, text: str = "") -> dict[str, object]:
    state = {"state": f"failed{text}" if text else "succeeded", "code": 0, "why": text}
    times = {"first_started": BEGAN, "updated": BEGAN + 171}
    phases = {"container": BEGAN, f"checks{text}": BEGAN + 2.5}
    more = {"digest": f"d{text}", "phases": phases, "training": {"step": 20, "total": 20}}
    return {"run": name, **state, "stage": "train", **times, **more}


def plan(text: str = "") -> dict[str, object]:
    inputs = {"model": f"hf://o/m@main{text}", "dataset": [f"hf://o/d@main{text}"]}
    args = {"rlhf_type": "dpo", "lr": f"1e-5{text}", f"beta{text}": "0.1"}
    return {
        "recipe": {"backend": f"megatron{text}", "task": "rlhf", **inputs, "args": args},
        "gang": {"nodes": 1, "gpus_per_node": 4, "card": f"h200{text}", "network": f"ib{text}"},
        "speed": {"step_seconds": 2.5, "tokens_per_second_per_gpu": 100, "mfu": 0.2},
        "memory": {"total_gib": 70.0, "card_gib": 139.8},
        "length": {"steps": 20, "hours": 0.02},
        "unknown": {f"evaluation{text}": f"no data{text}"},
    }

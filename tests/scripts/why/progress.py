"""States of a run whose pods are there."""

from typing import Any

from scripts.observe.view import View
from scripts.observe.workspace import RunFiles
from tests.scripts.observe.planted import NOW, RUNNING, Object, condition, ended, jobset, pod, view
from tests.scripts.why.planted import States, files, progress, row

HELD = "2026-11-18T10:00:00Z WARNING rank=0 run held code=80 minutes=30\n"
BOTH = [pod(0, RUNNING), pod(1, RUNNING)]
JOINING = '2026-11-18T10:00:00Z INFO rank=0 gang joined peer="rank 2 (p on n)" present=2 of=3\n'


def training(age: float) -> RunFiles:
    speed = {"step_seconds": 12.0, "eta_seconds": 876.0}
    stages = {"train": {"state": "running"}}
    return files(progress=progress(training=speed, stages=stages), row=row(age))


def both(read: RunFiles | None, **fields: Any) -> View:
    """A run of two ranks that run."""
    return view(jobset(), read, pods=BOTH, **fields)


def three_ranks() -> Object:
    made = jobset()
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 3
    return made


STATES: States = {
    "ranks-missing": (
        lambda: view(
            three_ranks(),
            files(progress=progress(phases={"container": NOW - 60})),
            pods=[*BOTH, pod(2, RUNNING)],
            log=JOINING,
        ),
        "start barrier for rank 1 of 3 nodes: rank 1 (dpo-node-0-1-x7k2p on node-2) is Running",
    ),
    "held": (
        lambda: both(files(progress=progress(state="failed")), log=HELD),
        "ended with exit code 80; debug.holdMinutes keeps its pods and GPUs for up to 30 minutes",
    ),
    "restarting": (
        lambda: view(
            jobset(condition("RestartingJobSet", "True", "FailurePolicy_disruption", "by a rule"))
        ),
        "by a rule",
    ),
    "stalled": (
        lambda: both(training(1800)),
        "No optimizer step for 30 min; one usually takes 12 s",
    ),
    "preparing": (
        lambda: both(files(progress=progress(stage="download", phases={"container": NOW - 90}))),
        "at stage download for 90 s",
    ),
    "loading": (lambda: both(files(progress=progress())), "last phase: gang"),
    "training": (lambda: both(training(6)), "step 34 of 107, 15 min left"),
    "pods-awaited": (
        lambda: view(jobset(), pods=[pod(0, RUNNING), pod(1, None)]),
        "1 of 2 ranks run.",
    ),
    "ending": (lambda: view(jobset(), pods=[pod(0, RUNNING), pod(1, ended(0))]), "rank 1 (dpo"),
    "running": (lambda: both(None), "2 of 2 ranks run; the workspace was not read"),
}

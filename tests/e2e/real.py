"""The main job with real training: ms-swift on CPU, a private repository and a hub in it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from launchers.metrics.trainer_log import LOG
from tests.e2e import queues, sources, standin
from tests.e2e.measured import measured
from tests.e2e.merge import merge
from tests.e2e.release import A100, CPU, Release, Values
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.launchers.trainer_log import read_losses

NAME = "dpo-42"
MINUTES = 8.0
"""Time limit of a run in seconds: it takes 45 s on two idle cores."""


@dataclass(frozen=True, kw_only=True)
class MainJob:
    """The README's run, uninterrupted from installation to end."""

    space: Space
    release: Release
    run: Run
    before: set[str]
    """Objects of the namespace before the installation."""
    losses: dict[int, float]


def release(space: Space, name: str, over: Values | None = None) -> tuple[Release, Run]:
    values = merge(sources.training(), over or {})
    made = Release(name=name, space=space, files=(A100, CPU), values=values)
    return made, Run(name=name, space=space)


def main_job(place: Space) -> MainJob:
    sources.serve(place)
    standin.prepare(place)
    queues.make(place, {"nvidia.com/gpu": "16"})
    before = objects(place)
    installed, run = release(place, NAME)
    with measured("main job: helm install to JobSet Completed"):
        installed.install()
        run.ended(seconds=MINUTES * 60)
    return MainJob(space=place, release=installed, run=run, before=before, losses=dict(losses(run)))


KEEP = "KEEP_RUNS"
"""Environment variable: a folder, as a workspace, for the files of runs that tests would remove."""


def keep(run: Run) -> None:
    """Copy a run's folder where the environment asks for it, so that a report can be made of it."""
    if folder := os.environ.get(KEEP):
        shutil.copytree(run.home, Path(folder) / "runs" / run.name, dirs_exist_ok=True)


def objects(space: Space) -> set[str]:
    listed = space.kubectl.run("api-resources", "--namespaced", "--verbs=list", "--output=name")
    kinds = [kind for kind in listed.split() if not kind.startswith("events")]
    names = space.kubectl.run("get", ",".join(kinds), "--output=name", "--ignore-not-found")
    return set(names.split())


def losses(run: Run) -> list[tuple[int, float]]:
    """Return step and loss of each logged step, of all attempts, in the order of the file."""
    steps = read_losses(run.home / "checkpoints" / LOG)
    return [(step.number, step.row["loss"]) for step in steps]

"""``make soak``: real training on the cluster with a fault every few minutes; JSON result.

All sides of ``sides.yaml`` train the same model on the same pairs at the same time, with ms-swift
on CPU. The same faults hit each disturbed side. Exit code 0 if all sides complete and every loss
of every attempt equals the undisturbed side's to the last digit.
"""

import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from scripts.dev import results
from scripts.problem import Problem
from tests.e2e import queues, real, sources, space, standin
from tests.e2e.cluster import kubectl as program
from tests.e2e.cluster.cluster import connect
from tests.e2e.cluster.layout import Layout
from tests.e2e.faults import Faults
from tests.e2e.image import __main__ as image
from tests.e2e.kubectl import Kubectl
from tests.e2e.merge import merge
from tests.e2e.soak import inject, judge
from tests.e2e.soak.inject import Scene
from tests.e2e.soak.judge import Event
from tests.e2e.soak.target import Target
from tests.e2e.space import Space

SIDES = Path(__file__).with_name("sides.yaml")
GPUS_PER_POD = 2
"""Fake GPUs; the quota is what all sides have together."""
SAVE_STEPS = 100
RETRY_SECONDS = 2.0
"""Pause before the next try while a run is between two attempts."""
PATIENCE_SECONDS = 1800.0
"""Time that the runs have to end after the last fault."""

Minutes = Annotated[float, typer.Option(help="Duration of the faults.")]
Every = Annotated[float, typer.Option(help="Seconds between two faults.")]
Steps = Annotated[int, typer.Option(help="Optimizer steps of each side.")]
Seed = Annotated[int, typer.Option(help="Of the order of the faults and of the chosen pods.")]
Out = Annotated[Path | None, typer.Option(help="Also write the result to this file.")]


@dataclass(kw_only=True)
class Soak:
    space: Space
    faults: Faults
    chance: random.Random
    targets: dict[str, Target]
    reference: str
    events: dict[str, list[Event]] = field(default_factory=dict)
    suspended: dict[str, float] = field(default_factory=dict)

    @property
    def disturbed(self) -> list[Target]:
        return [
            target
            for side, target in self.targets.items()
            if side != self.reference and not ended(target)
        ]

    def watch(self, seconds: float) -> None:
        """Let the runs train; note how long each is suspended."""
        stop = before = time.monotonic()
        stop += seconds
        while time.monotonic() < stop:
            for side, target in self.targets.items():
                if target.run.suspended and not ended(target):
                    gone = time.monotonic() - before
                    self.suspended[side] = self.suspended.get(side, 0.0) + gone
            before = time.monotonic()
            time.sleep(1.0)

    def disturb(self, number: int, name: str) -> None:
        scene = Scene(space=self.space, faults=self.faults, chance=self.chance, number=number)
        targets = self.disturbed
        began, at = time.monotonic(), time.time()
        if name in inject.ALL:
            done = inject.ALL[name](scene, targets)
            if name == "preempt":
                for target in targets:
                    taken = time.monotonic() - began
                    self.suspended[target.name] = self.suspended.get(target.name, 0.0) + taken
            for target in targets:
                self._note(target, name, at, done)
            return
        for target in targets:
            at, stop = time.time(), time.monotonic() + 120
            while not (done := inject.EACH[name](scene, target)) and time.monotonic() < stop:
                time.sleep(RETRY_SECONDS)
                at = time.time()
            self._note(target, name, at, done)

    def _note(self, target: Target, name: str, at: float, done: bool) -> None:
        typer.echo(f"{time.strftime('%H:%M:%S')} {target.name}: {name}: {done}", err=True)
        if done:
            self.events.setdefault(target.name, []).append(Event(name=name, time=at))


def ended(target: Target) -> bool:
    return bool(target.run.jobset.get("status", {}).get("terminalState"))


def main(
    minutes: Minutes = 30.0,
    every: Every = 180.0,
    steps: Steps = 3000,
    seed: Seed = 1,
    out: Out = None,
) -> None:
    chance = random.Random(seed)
    names = inject.order(chance, int(minutes * 60 // every))
    begin = time.monotonic()
    with started(steps, chance) as soak:
        for number, name in enumerate(names):
            soak.watch(max(0.0, begin + (number + 1) * every - time.monotonic()))
            soak.disturb(number, name)
        stop = time.monotonic() + PATIENCE_SECONDS
        while not all(ended(target) for target in soak.targets.values()):
            soak.watch(5.0)
            if time.monotonic() > stop:
                break
        states = {
            side: target.run.jobset["status"].get("terminalState", "")
            for side, target in soak.targets.items()
        }
        rows = {side: target.rows() for side, target in soak.targets.items()}
        restarts = {side: target.run.restarts for side, target in soak.targets.items()}
        figures = judge.summary(rows, soak.reference, soak.events, soak.suspended)
    passed = all(
        states[side] == "Completed" and not found["apart"] for side, found in figures.items()
    )
    result: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "seed": seed,
        "minutes": minutes,
        "every_s": every,
        "steps": steps,
        "passed": passed,
        "seconds": round(time.monotonic() - begin, 1),
        "sides": {
            side: {"state": states[side], "restarts": restarts[side], **found}
            for side, found in figures.items()
        },
    }
    text = results.text(result)
    typer.echo(text, nl=False)
    if out:
        out.write_text(text, encoding="utf-8")
    raise typer.Exit(0 if passed else 1)


@contextmanager
def started(steps: int, chance: random.Random) -> Iterator[Soak]:
    """Install all sides in a namespace of their own; remove them at the end."""
    cluster = connect()
    kubectl = Kubectl(binary=program.binary(Layout()), kubeconfig=cluster.layout.kubeconfig)
    cluster.load_image(image.ARCHIVE)
    queues.shared(kubectl)
    faults = Faults(cluster=cluster, kubectl=kubectl)
    sides: dict[str, Any] = yaml.safe_load(SIDES.read_text(encoding="utf-8"))
    quota = str(2 * GPUS_PER_POD * len(sides))
    with (
        tempfile.TemporaryDirectory() as folder,
        space.opened(cluster, kubectl, "soak", "privileged", Path(folder)) as place,
    ):
        sources.serve(place)
        standin.prepare(place)
        queues.make(place, {"nvidia.com/gpu": quota})
        targets = {side: _side(place, side, about, steps) for side, about in sides.items()}
        for target in targets.values():
            target.release.install()
        reference = next(side for side, about in sides.items() if not about["faults"])
        try:
            yield Soak(
                space=place, faults=faults, chance=chance, targets=targets, reference=reference
            )
        finally:
            faults.repair()


def _side(place: Space, side: str, about: dict[str, Any], steps: int) -> Target:
    over = {
        "resources": {
            "requests": {"cpu": "100m"},
            "limits": {"nvidia.com/gpu": GPUS_PER_POD},
        },
        "recipe": {"args": {"max_steps": steps, "save_steps": SAVE_STEPS}},
    }
    release, run = real.release(place, f"soak-{side}", merge(over, about["values"]))
    return Target(name=side, run=run, release=release)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Problem as problem:
        raise SystemExit(f"error: {problem}") from None

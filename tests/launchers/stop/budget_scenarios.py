"""50 runs with a budget by a simulated clock: faults, restarts, preemptions, slow steps and saves.

The launcher's own parts run: what it holds (`Progress`), the decision (`_spent`, `Budget`), the
agreement on a boundary, the step board and the training process at its boundaries. Simulated are
time, the trainer's work, and what ends processes and pods.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from launchers.config.budget import Budget
from launchers.config.settings import Settings
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.progress.progress import BEAT_SECONDS, Progress
from launchers.progress.training import Timeline
from launchers.run.run import _spent
from launchers.stop.agreement import StopAgreement
from launchers.stop.boundary import Boundary
from launchers.stop.watch import StopOnRequest
from launchers.system.step_board import VARIABLE, StepBoard

SCENARIOS = 50
BEGIN = 1_795_000_000.0
TICK = 1.0
"""Seconds between two looks; the launcher looks every 0.2 s."""
GRACE = 300.0
TOTAL = 400


class Crash(Exception):
    """All pods are gone at once, without a save."""


class Failure(Exception):
    """The training processes have failed; the launcher restarts them in place."""


@dataclass
class Clock:
    now: float = BEGIN

    def time(self) -> float:
        return self.now

    monotonic = time

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        """Nothing waits for real."""


@dataclass(kw_only=True)
class Scenario:
    """What happens to a run; times in seconds."""

    seed: int
    gpus: int
    budget: Budget
    step: float
    save: float
    evaluation: float
    save_every: int
    load: float
    """From the start of the training processes to the first step."""
    faults: list[tuple[float, str]]
    """Time since the begin, and `crash`, `failure` or `preempted`."""
    slow: tuple[int, float]
    """Step from which steps take so many times as long."""

    @classmethod
    def of(cls, seed: int) -> Scenario:
        chance = Random(seed)
        gpus = chance.choice([8, 16, 32])
        chance.choice([1.5, 2.5, 4.0])  # a price, so that each seed keeps its scenario
        hours = chance.uniform(0.4, 1.2)
        minutes = int(hours * gpus * 60) if seed % 3 != 1 else float("inf")
        by = BEGIN + 3600 * chance.uniform(0.6, 1.6) if seed % 3 else float("inf")
        kinds = ["crash", "failure", "preempted"]
        return cls(
            seed=seed,
            gpus=gpus,
            budget=Budget(gpu_minutes=minutes, by=by),
            step=chance.uniform(4, 60),
            save=chance.uniform(5, 90),
            evaluation=chance.uniform(20, 120),
            save_every=chance.choice([5, 10, 25]),
            load=chance.uniform(30, 240),
            faults=sorted(
                (chance.uniform(60, 3600 * hours), chance.choice(kinds))
                for _ in range(chance.choice([0, 1, 2, 4]))
            ),
            slow=(chance.randint(5, 60), chance.choice([1.0, 1.0, 2.5])),
        )


@dataclass(kw_only=True)
class World:
    """A scenario while it runs, with its true times."""

    scenario: Scenario
    folder: Path
    clock: Clock
    faults: list[tuple[float, str]] = field(default_factory=list)
    held: float = 0.0
    """Seconds for which pods have lived."""
    checkpoint: int = 0
    lines: list[str] = field(default_factory=list)
    """Of `metrics.jsonl`, not read yet."""
    timeline: Timeline = field(default_factory=Timeline)
    steps: dict[int, float] = field(default_factory=dict)
    """Seconds of the steps that count."""
    lost: float = 0.0
    evaluated: float = 0.0
    longest_step: float = 0.0
    end: str = ""

    @property
    def settings(self) -> Settings:
        launch = SimpleNamespace(world_size=self.scenario.gpus)
        training = SimpleNamespace(budget=self.scenario.budget)
        return cast(Settings, SimpleNamespace(launch=launch, training=training))

    def run(self) -> Progress:
        self.faults = [(BEGIN + when, kind) for when, kind in self.scenario.faults]
        while True:
            began, is_lost = self.clock.now, False
            with patch("launchers.progress.progress.process_start", self.clock.time):
                progress = Progress(path=self.folder / "progress.json", run="r", digest="d")
            try:
                self.end = self._pods(progress)
            except Crash:
                self.end, is_lost = "", True
            self.held += self.clock.now - began
            if self.end:
                progress.finish("succeeded", self.end)
                return progress
            if not is_lost:
                progress.finish("failed", "preempted")
            assert self.clock.now < BEGIN + 1e5, f"scenario {self.scenario.seed} does not end"
            self.clock.now += Random(self.checkpoint).uniform(20, 400)  # new pods are awaited

    def _pods(self, progress: Progress) -> str:
        agreement = StopAgreement(1, lambda _: None)
        agreement.over = partial(_spent, self.settings, progress)
        progress.write()
        self._pass(5.0, progress)  # containers, stages that are up to date, the gang
        while True:
            board = StepBoard.make(self.folder / "board", 1)
            stop = StopOnRequest(board, agreement, GRACE)
            try:
                if end := self._attempt(progress, stop, agreement):
                    return end if end != "preempted" else ""
            except Failure:
                continue

    def _attempt(self, progress: Progress, stop: StopOnRequest, agreement: StopAgreement) -> str:
        """Train; return why the run ends, or `preempted`."""
        env = {VARIABLE: str(stop.board.path), "LOCAL_RANK": "0"}
        boundary, step, case = Boundary(env), self.checkpoint, self.scenario
        if self._pass(case.load, progress, stop, agreement):
            return agreement.ends or "preempted"
        boundary.begin(step)
        while step < TOTAL:
            seconds = case.step * (case.slow[1] if step >= case.slow[0] else 1.0)
            if self._pass(seconds, progress, stop, agreement):
                return agreement.ends or "preempted"
            step += 1
            self._note(step, seconds, progress)
            saves, is_last = step % case.save_every == 0, step == TOTAL
            stops = boundary.end_step(step, saves=saves, is_last=is_last)
            if saves or stops or is_last:
                self._pass(case.save, progress)
                self.checkpoint = step
                if is_last:
                    return "all steps"
                if boundary.end_save(step, stops=stops):
                    boundary.stop(step)
                    return agreement.ends or "preempted"
            if step % 20 == 0:
                self._pass(case.evaluation, progress)
                self.evaluated += case.evaluation
                at: dict[str, Any] = {"step": step, "total": TOTAL, "attempt": 1}
                at |= {"time": self.clock.now, "seconds": case.evaluation}
                self.lines.append(evaluations.line(Evaluation(**at, values={"loss": 0.7})))
                boundary.begin(step)
        return "all steps"

    def _note(self, step: int, seconds: float, progress: Progress) -> None:
        for again in [each for each in self.steps if each >= step]:
            self.lost += self.steps.pop(again)
        self.steps[step] = seconds
        self.longest_step = max(self.longest_step, seconds)
        row = Row(step=step, total=TOTAL, attempt=1, time=self.clock.now, seconds=seconds)
        self.lines.append(rows.line(row))
        self.timeline.add(self.lines)
        self.lines = []
        progress.training = self.timeline.summary(self.clock.now, BEGIN)

    def _pass(
        self,
        seconds: float,
        progress: Progress,
        stop: StopOnRequest | None = None,
        agreement: StopAgreement | None = None,
    ) -> bool:
        """Let time pass; return whether the run or this start has ended without a save."""
        until, beat = self.clock.now + seconds, self.clock.now
        while self.clock.now < until:
            self.clock.now = min(until, self.clock.now + TICK)
            if self.clock.now >= beat + BEAT_SECONDS:
                beat = self.clock.now
                progress.beat()
            if self.faults and self.clock.now >= self.faults[0][0]:
                _, kind = self.faults.pop(0)
                if kind == "crash":
                    raise Crash
                if kind == "failure" and stop is not None:
                    raise Failure
                if kind == "preempted" and agreement is not None:
                    agreement.ask(GRACE)
            if stop is not None and stop.has_given_up():
                return True
            if agreement is not None and agreement.boundary < 0:
                return True
        return False


@dataclass(frozen=True, kw_only=True)
class Result:
    scenario: Scenario
    end: str
    step: int
    checkpoint: int
    over: float
    """Seconds beyond the budget, negative if it was not used up."""
    allowed: float
    """Of one step and one save, and of one look."""
    said: dict[str, float]
    true: dict[str, float]
    """GPU-hours by purpose: as the launcher wrote them, and as they were."""


def play(seed: int, folder: Path) -> Result:
    scenario, clock = Scenario.of(seed), Clock()
    with ExitStack() as stack:
        for module in ("progress.progress", "stop.agreement", "stop.boundary", "run.run"):
            stack.enter_context(patch(f"launchers.{module}.time", clock))
        stack.enter_context(patch("launchers.system.step_board.time", clock))
        stack.enter_context(patch("launchers.system.atomic_file.flush", lambda _: None))
        world = World(scenario=scenario, folder=folder, clock=clock)
        progress = world.run()
        held = progress.held
    given = scenario.budget
    over = [world.held - given.gpu_minutes * 60 / scenario.gpus, clock.now - given.by]
    found = progress.training
    hours: Callable[[float], float] = lambda seconds: seconds * scenario.gpus / 3600  # noqa: E731
    said = {n: found.get(f"{n}_seconds", 0.0) for n in ("trained", "lost", "evaluation")}
    true = {"held": world.held, "trained": sum(world.steps.values()), "lost": world.lost}
    return Result(
        scenario=scenario,
        end=world.end,
        step=max(world.steps, default=0),
        checkpoint=world.checkpoint,
        over=max(over),
        allowed=world.longest_step + scenario.save + TICK,
        said={name: hours(value) for name, value in {"held": held, **said}.items()},
        true={n: hours(v) for n, v in {**true, "evaluation": world.evaluated}.items()},
    )


def results() -> Iterator[Result]:
    for seed in range(SCENARIOS):
        with tempfile.TemporaryDirectory() as folder:
            yield play(seed, Path(folder))

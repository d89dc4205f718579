"""``progress.json``: the state of a run, for people and tools; written by rank 0."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.settings import STAGES
from launchers.exits import USER, Exit, LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import PeerLoss
from launchers.metrics import rows
from launchers.progress.phases import CONTAINER, FAILED, FIRST_STEP, RESTART, merge, process_start
from launchers.storage import run_lease
from launchers.system import lookup
from launchers.system.atomic_file import read_object, replace
from launchers.system.process import Stopped
from launchers.system.threads import repeat

BEAT_SECONDS = 10.0
"""Seconds between two writes; a start that was killed counts as so much longer."""
LOOKUP_SECONDS = 5.0
"""Time of ``quietly`` for a storage that does not answer: the pod may be terminating."""


@dataclass(kw_only=True)
class Progress:
    """The content of the file; every change rewrites the whole file."""

    path: Path
    run: str
    digest: str
    """Digest of recipe and launcher, see ``gang/protocol.py``."""
    state: str = "running"
    """``running``, ``succeeded`` or ``failed``; a failed run may be restarted."""
    code: int = 0
    """The exit code of a run that failed."""
    why: str = ""
    stage: str = ""
    attempt: int = 0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Per stage: ``state`` (running, done, up to date, skipped, failed), ``why``, ``seconds``."""
    outputs: list[list[str]] = field(default_factory=list)
    """Path and digest of each output of the stages before training."""
    prompts: str = ""
    """Whether prompts of pairs are computed once, and why not, where ``auto`` decides."""
    training: dict[str, Any] = field(default_factory=dict)
    """Progress and speed of training, see ``training.py``."""
    restarts: list[dict[str, Any]] = field(default_factory=list)
    """Restarts in place since the pods started: ``attempt``, ``why``, ``failed`` (Unix time), and
    ``seconds`` to the end of the attempt's first step, None before it."""
    started: float = field(default_factory=time.time)
    phases: dict[str, float] = field(default_factory=lambda: {CONTAINER: process_start()})
    """Unix time at which each phase of the start ended, see ``phases.py``."""

    def __post_init__(self) -> None:
        """Take the start of the run's first attempt and the last training state from the file."""
        before = read_object(self.path)
        self.first_started = min(self.started, _first_started(before))
        self.training, self.attempt = _trained(before)  # an interrupted start must not lose it
        self._writing = threading.Lock()  # training is reported by another thread
        held = before.get("held_seconds")
        self._held = float(held) if rows.is_number(held) else 0.0
        self._held += BEAT_SECONDS if before.get("state") == "running" else 0.0
        self._began = time.monotonic() - max(0.0, time.time() - process_start())
        self._updated = self.started

    @property
    def held(self) -> float:
        """Return the seconds for which all starts, from that of the container, have held pods."""
        return self._held + time.monotonic() - self._began

    def beat(self) -> None:
        """Write the time that the pods are held, for a start that is killed."""
        with self._writing:
            self._write()

    def mark(self, phase: str) -> None:
        """Note that a phase of the start has ended; written with the next change."""
        self.phases[phase] = time.time()

    def begin_training(self, attempt: int) -> None:
        """Note that an attempt trains; until then the state of an earlier attempt is kept."""
        self.attempt, self.training = attempt, {}
        self.write()

    def restart(self, attempt: int, *, failed: float, why: str) -> None:
        """Note a restart in place: another attempt trains in the same pods.

        Training failed at ``failed`` (Unix time).
        """
        found = {"attempt": attempt, "why": why, "failed": round(failed, 3), "seconds": None}
        self.restarts.append(found)
        self.phases = {FAILED: failed}
        self.mark(RESTART)
        self.begin_training(attempt)

    def note_phases(self, *marks: Mapping[str, float]) -> None:
        """Merge the phases of the training processes into those of the start."""
        self.phases = merge(self.phases, *marks)
        if self.restarts and FIRST_STEP in self.phases:
            seconds = self.phases[FIRST_STEP] - self.restarts[-1]["failed"]
            self.restarts[-1]["seconds"] = round(seconds, 3)

    def begin(self, stage: str) -> None:
        """Note that a stage begins."""
        self.stage = stage
        self.stages[stage] = {"state": "running", "why": "", "seconds": 0.0}
        self._clock = time.monotonic()
        self.write()

    def end(self, state: str, why: str = "") -> None:
        """Note the end of the current stage."""
        seconds = round(time.monotonic() - self._clock, 3)
        self.stages[self.stage] = {"state": state, "why": why, "seconds": seconds}
        if self.stage != "train":
            self.mark(self.stage)
        self.write()

    def finish(self, state: str, why: str = "", code: int = 0) -> None:
        """Note the end of the run and of a stage that is still running."""
        self.state, self.why, self.code = state, why, code
        if self.stages.get(self.stage, {}).get("state") == "running":
            self.end("failed" if state == "failed" else "done", why)
        self.write()

    def write(self) -> None:
        """Write the file atomically."""
        with self._writing:
            self._updated = time.time()
            self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fields = {
            "run": self.run,
            "digest": self.digest,
            "state": self.state,
            "code": self.code,
            "why": self.why,
            "stage": self.stage,
            "attempt": self.attempt,
            "stages": {s: self.stages[s] for s in STAGES if s in self.stages},
            "outputs": self.outputs,
            **({"prompts": self.prompts} if self.prompts else {}),
            "training": self.training,
            "restarts_in_place": self.restarts,
            "held_seconds": round(self.held, 3),
            "first_started": round(self.first_started, 3),
            "phases": {name: round(when, 3) for name, when in self.phases.items()},
            "started": round(self.started, 3),
            "updated": round(self._updated, 3),
        }
        run_lease.check()
        replace(self.path, json.dumps(fields, indent=1) + "\n")


def _first_started(before: Mapping[str, Any]) -> float:
    """Return the start that an earlier attempt noted; infinity without one."""
    try:
        return float(before["first_started"])
    except (ValueError, TypeError, KeyError):
        return math.inf


def _trained(before: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the noted state of training and its attempt.

    >>> _trained({"training": {"step": 3}, "attempt": 2}), _trained({"training": None})
    (({'step': 3}, 2), ({}, 0))
    """
    training, attempt = before.get("training"), before.get("attempt")
    return (
        dict(training) if isinstance(training, Mapping) else {},
        attempt if isinstance(attempt, int) else 0,
    )


@contextmanager
def reporting(progress: Progress, peers: PeerMonitor | None = None) -> Iterator[None]:
    """Note in ``progress.json`` why the run failed, if it fails."""
    try:
        yield
    except BaseException as error:
        why, code = _fate(error, peers.loss if peers else None)
        quietly(lambda: progress.finish("failed", why, int(code)))
        raise


def _fate(error: BaseException, loss: PeerLoss | None) -> tuple[str, int]:
    """Return why the run failed, and its exit code.

    A peer's user error fails the JobSet for good, which then ends this pod, too: this rank's own
    end, a cascade or SIGTERM, would look as if a restart followed.
    """
    own = error.code if isinstance(error, LaunchError) else Exit.PEER
    own = Exit.TERMINATED if isinstance(error, Stopped) else own
    if loss is not None and loss.code in USER and own not in USER:
        return str(loss.error()), loss.code
    return str(error), own


def beating(progress: Progress) -> AbstractContextManager[threading.Thread]:
    """Keep ``held_seconds`` up to date while the block runs."""
    return repeat(lambda: quietly(progress.beat), BEAT_SECONDS, "progress")


def quietly(write: Callable[[], None]) -> None:
    """Write the file; a storage that fails must neither end the run nor hide why it ends.

    Raises:
        LaunchError: PREEMPTED, another launcher leads the run.
    """
    try:
        with lookup.within(LOOKUP_SECONDS):
            write()
    except (OSError, LaunchError) as broken:
        if isinstance(broken, LaunchError) and broken.code == Exit.PREEMPTED:
            raise
        logs.warning("progress not written", cause=broken)

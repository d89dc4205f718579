"""Times at which each phase of a start ended, from the container to the second optimizer step.

A phase is named by what has just ended; its time is a Unix time. Rank 0's launcher notes its own
phases (``container``, ``checks``, the stages, ``gang``, ``preflight``); the training processes of
the first and the last rank write theirs to ``attempts/<n>/phases-<rank>.json``
(``training/startup_*.py``). ``startup.py`` merges them into ``progress.json``.
"""

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from launchers.system.atomic_file import FOREIGN
from launchers.system.proc_stat import read_stat
from launchers.system.step_board import StepBoard

CONTAINER = "container"
FAILED, RESTART = "failed", "restart"
"""Instead of the phases before training, after a restart in place: the training failed; all its
processes were gone and the pause was over."""
FIRST_STEP = "first_step"
SECOND_STEP = "second_step"

Result = TypeVar("Result")


def process_start(now: float | None = None) -> float:
    """Return the start of this process as a Unix time; ``now`` if /proc is not readable."""
    now = time.time() if now is None else now
    if (stat := read_stat("self")) is None:
        return now
    started = stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return now - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


class Marks:
    """The phases of one training process; each change is written, so that a crash loses none."""

    def __init__(self, path: Path | None, beat: Callable[[], None] = lambda: None) -> None:
        """Write to ``path``; note nothing if it is None.

        ``beat`` is called at the end of each phase.
        """
        self._path, self._beat = path, beat
        self._times: dict[str, float] = {}
        self.mark("process", process_start())

    def mark(self, phase: str, when: float | None = None) -> None:
        """Note that a phase has ended; later calls for the same phase are ignored."""
        self._beat()
        if self._path is None or phase in self._times:
            return
        self._times[phase] = round(time.time() if when is None else when, 3)
        part = self._path.with_name(f".{self._path.name}.partial")
        with contextlib.suppress(OSError):  # a full disk must not end the training
            part.write_text(json.dumps(self._times) + "\n", encoding="utf-8")
            part.replace(self._path)

    def step(self) -> None:
        """Note the end of an optimizer step; only the first two count."""
        self.mark(SECOND_STEP if FIRST_STEP in self._times else FIRST_STEP)

    def ending(self, phase: str, call: Callable[..., Result]) -> Callable[..., Result]:
        """Wrap a function so that its return ends the phase."""

        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Result:
            result = call(*args, **kwargs)
            self.mark(phase)
            return result

        return wrapped

    def entering(self, phase: str, call: Callable[..., Result]) -> Callable[..., Result]:
        """Wrap a function so that its call ends the phase."""

        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Result:
            self.mark(phase)
            return call(*args, **kwargs)

        return wrapped


def marks_of(env: Mapping[str, str]) -> Marks:
    """Return the marks of this training process; only the first and the last rank write them.

    Each mark is also a heartbeat of its process. ``RANK`` and ``WORLD_SIZE`` are torchrun's,
    ``DPO_ATTEMPT_FOLDER`` the launcher's.
    """
    rank, last = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1")) - 1
    folder, board = env.get("DPO_ATTEMPT_FOLDER", ""), StepBoard.of_process(env)
    path = Path(folder) / f"phases-{rank}.json" if folder and rank in (0, last) else None
    if board is None:
        return Marks(path)
    return Marks(path, partial(board.write, int(env.get("LOCAL_RANK", "0"))))


def read(path: Path) -> dict[str, float]:
    """Return the phases of one process; empty if there are none yet."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(when) for name, when in found.items()}
    except (OSError, *FOREIGN):
        return {}


def merge(*marks: Mapping[str, float]) -> dict[str, float]:
    """Merge the phases of several processes in the order of time: the last process ends a phase.

    >>> merge({"container": 1.0}, {"imports": 5.0, "process": 2.0}, {"imports": 7.0})
    {'container': 1.0, 'process': 2.0, 'imports': 7.0}
    """
    latest: dict[str, float] = {}
    for each in marks:
        for name, when in each.items():
            latest[name] = max(when, latest.get(name, when))
    return dict(sorted(latest.items(), key=lambda item: item[1]))


def durations(marks: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each phase, counted from the end of the phase before.

    >>> durations({"container": 10.0, "checks": 12.5, "gang": 13.0})
    {'checks': 2.5, 'gang': 0.5}
    """
    ordered = list(merge(marks).items())
    pairs = zip(ordered, ordered[1:], strict=False)
    return {name: round(when - before, 3) for (_, before), (name, when) in pairs}

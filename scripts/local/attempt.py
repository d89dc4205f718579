"""One attempt of a JobSet: all its pods once, until they are done, one fails, or it is stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.process import kill_descendants
from scripts.local.display import View
from scripts.local.pods import Pod
from scripts.local.process import PodProcess, Start
from scripts.local.signals import Stop

PAUSE = 0.05
"""Seconds between two looks at the pods."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended: neither failed nor stopped means that all pods are done."""

    failed: Pod | None = None
    code: int = 0
    """Exit code of the first pod that failed."""
    stopped: bool = False


def run_attempt(waves: Sequence[Sequence[Start]], view: View, stop: Stop) -> Outcome:
    """Runs the pods of each wave at once, wave after wave; none is left when it returns."""
    for wave in waves:
        processes: list[PodProcess] = []
        try:
            for start in wave:
                processes.append(PodProcess(start, view.line))
            outcome = _wait(processes, view, stop)
        finally:
            _end(processes, view, stop)
        if outcome.failed or outcome.stopped:
            return outcome
    return Outcome()


def _wait(processes: Sequence[PodProcess], view: View, stop: Stop) -> Outcome:
    running = list(processes)
    while running:
        if stop.count:
            return Outcome(stopped=True)
        for process in list(running):
            code = process.poll()
            if code is None:
                continue
            running.remove(process)
            view.ended(process.name, code)
            if code:
                return Outcome(failed=process.start.pod, code=code)
        view.tick()
        time.sleep(PAUSE)
    return Outcome()


def _end(processes: Sequence[PodProcess], view: View, stop: Stop) -> None:
    """SIGTERM, the grace period, SIGKILL; a second signal to the runner ends the grace period."""
    signals = stop.count
    left = [process for process in processes if process.poll() is None]
    for process in left:
        process.terminate()
    grace = max((process.start.pod.job.grace for process in left), default=0.0)
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline and stop.count <= max(signals, 1):
        left = [process for process in left if process.poll() is None]
        view.tick()
        time.sleep(PAUSE)
    for process in left:
        view.note(f"{process.name} is killed: still there after the grace period of {grace:.0f} s")
    for process in processes:
        process.kill()
    kill_descendants()  # torchrun's workers lead sessions of their own
    for process in processes:
        process.close()

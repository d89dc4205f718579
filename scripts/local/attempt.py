"""One attempt of a JobSet: run all its pods until they end, one fails, or it is stopped."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.system.process import kill_descendants
from scripts.local.display import Display
from scripts.local.pods import Pod
from scripts.local.process import PodProcess, Start
from scripts.local.signals import Stop

POLL_SECONDS = 0.05
"""Interval between two polls of the pods."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of an attempt; all pods succeeded if it neither failed nor was stopped."""

    failed: Pod | None = None
    code: int = 0
    """Exit code of the first pod that failed."""
    stopped: bool = False


def run_attempt(waves: Sequence[Sequence[Start]], display: Display, stop: Stop) -> Outcome:
    """Run the pods wave by wave; no pod is left running when it returns."""
    for wave in waves:
        processes: list[PodProcess] = []
        try:
            for start in wave:
                processes.append(PodProcess(start, display.line))
            outcome = _wait(processes, display, stop)
        finally:
            _end(processes, display, stop)
        if outcome.failed or outcome.stopped:
            return outcome
    return Outcome()


def _wait(processes: Sequence[PodProcess], display: Display, stop: Stop) -> Outcome:
    running = list(processes)
    while running:
        if stop.count:
            return Outcome(stopped=True)
        for process in list(running):
            code = process.poll()
            if code is None:
                continue
            running.remove(process)
            display.ended(process.name, code)
            if code:
                return Outcome(failed=process.start.pod, code=code)
        display.tick()
        time.sleep(POLL_SECONDS)
    return Outcome()


def _end(processes: Sequence[PodProcess], display: Display, stop: Stop) -> None:
    """Send SIGTERM, wait for the grace period, kill; a second stop signal ends the grace period."""
    signals = stop.count
    left = [process for process in processes if process.poll() is None]
    for process in left:
        process.terminate()
    grace = max((process.start.pod.job.grace for process in left), default=0.0)
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline and stop.count <= max(signals, 1):
        left = [process for process in left if process.poll() is None]
        display.tick()
        time.sleep(POLL_SECONDS)
    for process in left:
        display.note(
            f"{process.name} is killed: still running after the grace period of {grace:.0f} s"
        )
    for process in processes:
        process.kill()
    kill_descendants()  # torchrun's workers lead sessions of their own
    for process in processes:
        process.close()

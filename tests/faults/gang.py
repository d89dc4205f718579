"""A JobSet of launcher processes: starts the pods, restarts them as the chart's policy says."""

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

from launchers.exits import FREE, USER
from launchers.system.process import descendants
from tests.launchers.pods import FAKES, ROOT, Pods
from tests.launchers.processes import signal_all

TRAINER = Path(__file__).parent / "trainer"
MAX_RESTARTS = 5
"""More than the attempts without progress after which a run ends."""
GRACE_SECONDS = 15
"""From SIGTERM to SIGKILL of a pod."""
POLL_SECONDS = 0.05
CASCADES = ("peer-ended", "cascade", "leader-gone", "attempt-stopped", "stopped")
HANDLED = ("SIGTERM", "SIGINT", "SIGSTOP")


@dataclass
class End:
    code: int
    """Exit code of the pod that decides."""
    at: float
    """Unix time at which it ended."""
    message: dict[str, Any]


@dataclass
class Gang(Pods):
    """The pods of one run; logs are files, so that no pod waits for a reader."""

    variables: Mapping[str, str] = field(default_factory=dict)
    rank_variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    """Program before the launcher, such as one that lets system calls fail."""
    pods: list[Popen[str]] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    counted: int = 0
    free: int = 0
    between: Callable[[], None] = lambda: None
    """Called before each restart."""
    watch: Callable[[], None] = lambda: None
    """Called while pods run."""

    def start_all(self) -> None:
        self.pods = [self._start(rank) for rank in range(self.nodes)]

    def _start(self, rank: int) -> Popen[str]:
        self.log(rank).unlink(missing_ok=True)
        own = {**self.variables, **self.rank_variables.get(rank, {})}
        env = self.env(rank, **{"DPO_GRACE_SECONDS": str(GRACE_SECONDS), **own})
        env["PYTHONPATH"] = f"{TRAINER}:{ROOT}:{FAKES}"
        env["HOME"] = str(self.folder)
        words = [*self.wrapper, sys.executable, "-m", "launchers", "run"]
        with self.output(rank).open("a") as log:
            return Popen(words, cwd=self.folder, env=env, stdout=log, stderr=STDOUT, text=True)

    def output(self, rank: int) -> Path:
        return self.folder / f"pod-{rank}.log"

    def until_end(self, deadline: float) -> str:
        """Run to the end; return ``done``, ``failed`` or ``deadline``."""
        while True:
            self.start_all()
            codes = self._attempt(deadline)
            if codes is None:
                return "deadline"
            if not any(codes):
                return "done"
            self._explain()
            if not self._restarts():
                return "failed"
            self.between()

    def _attempt(self, deadline: float) -> list[int] | None:
        """Wait until all pods have ended; the first failure ends the others."""
        failed = False
        while None in [pod.poll() for pod in self.pods]:
            if time.monotonic() > deadline:
                self.kill()
                return None
            self.watch()
            ended = [pod.returncode for pod in self.pods if pod.returncode is not None]
            if not failed and any(ended):
                failed = True
                first = next(r for r, pod in enumerate(self.pods) if pod.returncode)
                self._note(first)
                self._end_others()
            time.sleep(POLL_SECONDS)
        codes = [pod.returncode for pod in self.pods]
        if not failed and any(codes):
            self._note(next(rank for rank, code in enumerate(codes) if code))
        return codes

    def _note(self, rank: int) -> None:
        code = self.pods[rank].returncode
        self.ends.append(End(code=code if code >= 0 else 128 - code, at=time.time(), message={}))

    def _explain(self) -> None:
        """Add the message of the pod that names the cause: a cascade only names another pod."""
        found = []
        for rank in range(self.nodes):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads(self.log(rank).read_text()))
        found.sort(key=lambda message: message.get("id") in CASCADES)
        self.ends[-1].message = found[0] if found else {}

    def _end_others(self) -> None:
        """Delete the other pods as JobSet does: SIGTERM, after the grace period SIGKILL."""
        for pod in self.pods:
            if pod.poll() is None:
                pod.send_signal(signal.SIGCONT)
                pod.send_signal(signal.SIGTERM)
        stop = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < stop and None in [pod.poll() for pod in self.pods]:
            time.sleep(POLL_SECONDS)
        self.kill()

    def _restarts(self) -> bool:
        code = self.ends[-1].code
        if code in USER:
            return False
        if code in FREE:
            self.free += 1
            return self.free <= MAX_RESTARTS
        self.counted += 1
        return self.counted <= MAX_RESTARTS

    def kill(self) -> None:
        for pod in self.pods:
            signal_pod(pod, "SIGKILL")


def signal_pod(pod: Popen[str], name: str) -> None:
    """Send a signal to a pod's launcher; if it dies of it, all processes of the pod do.

    The launcher is process 1 of its container, with which the kernel ends all others. They are
    stopped before: one that is started meanwhile would be missed.
    """
    if pod.poll() is not None:
        return
    if name in HANDLED:
        pod.send_signal(signal.Signals[name])
        return
    inside = set[int]()
    while new := {pod.pid, *descendants(pod.pid)} - inside:
        signal_all(new, signal.SIGSTOP)
        inside |= new
    pod.send_signal(signal.Signals[name])
    pod.send_signal(signal.SIGCONT)
    pod.wait()
    signal_all(inside - {pod.pid}, signal.SIGKILL)

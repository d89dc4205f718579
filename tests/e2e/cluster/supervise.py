"""Start programs that outlive this command, wait until they are ready, and stop exactly those.

Each program has a record with its process id and its kernel start time. A process id that was
reused by another process is therefore never signalled.
"""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from launchers.system.proc_stat import read_stat
from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout

GRACE_SECONDS = 10.0
"""Time between SIGTERM and SIGKILL."""
READY_SECONDS = 120.0
"""Time limit for a program to become ready: it takes seconds on an idle machine."""
POLL_SECONDS = 0.05
GATE = 'read -r _ && exec "$@" </dev/null'
"""Execs the program after it reads a line; exits if this command dies before it writes one."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of the cluster: command line and readiness."""

    name: str
    argv: tuple[str | Path, ...]
    ready: str | None = None
    """URL that returns 200 when the program is ready; None: its readiness is not checked."""


@dataclass(frozen=True, kw_only=True)
class Process:
    name: str
    pid: int
    started: int
    """Start time in clock ticks since boot."""

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has exited."""
    stat = read_stat(pid)
    return None if stat is None or stat.has_ended else stat.start_ticks


def start(
    layout: Layout, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None
) -> Process:
    """Start a program in its own session and record it; its output goes to ``logs/NAME.log``."""
    layout.logs.mkdir(parents=True, exist_ok=True)
    with (layout.logs / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            ["sh", "-c", GATE, name, *[str(word) for word in argv]],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=None if env is None else {**os.environ, **env},
        )
    process = hand_over(layout, name, child.pid)
    # Record it first: an unrecorded program would outlive `down`.
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as gate:
        gate.write(b"\n")
    return process


def hand_over(layout: Layout, name: str, pid: int) -> Process:
    """Record the process ``pid`` as the program ``name``, in place of its wrapper (nsenter)."""
    process = Process(name=name, pid=pid, started=start_time(pid) or 0)
    record = _record(layout, name)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(asdict(process)) + "\n", encoding="utf-8")
    return process


def find(layout: Layout, name: str) -> Process | None:
    """Return a recorded program, alive or not."""
    try:
        return Process(**json.loads(_record(layout, name).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def recorded(layout: Layout) -> list[Process]:
    """Return all recorded programs, newest first, which is the order in which they are stopped."""
    files = sorted(layout.run.glob("pids/*.json"), key=lambda f: f.stat().st_mtime_ns, reverse=True)
    return [Process(**json.loads(file.read_text(encoding="utf-8"))) for file in files]


def stop(layout: Layout, name: str, *, grace: float = GRACE_SECONDS) -> None:
    """Stop a recorded program: SIGTERM, then SIGKILL after ``grace`` seconds (0: SIGKILL only)."""
    process = find(layout, name)
    if process is None:
        return
    if process.alive and grace:
        _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while process.alive and time.monotonic() < deadline:
            _reap(process)
            time.sleep(0.02)
    if process.alive:
        _signal(process, signal.SIGKILL)
        while process.alive:
            _reap(process)
            time.sleep(0.02)
    _record(layout, name).unlink(missing_ok=True)


def wait_ready(layout: Layout, program: Program) -> None:
    """Wait until the program's ``ready`` URL returns 200."""
    url = program.ready
    if url is not None:
        context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
        wait_until(layout, program.name, "ready", lambda: _returns_200(url, context))


def wait_until(
    layout: Layout,
    name: str,
    state: str,
    probe: Callable[[], bool],
    limit: float = READY_SECONDS,
) -> None:
    """Poll until the probe of a running program returns True; ``state`` is for the message."""
    deadline = time.monotonic() + limit
    log = layout.logs / f"{name}.log"
    while not probe():
        process = find(layout, name)
        if process is None or not process.alive:
            raise Problem(f"{name} exited before it was {state}; see its log {log}")
        if time.monotonic() > deadline:
            raise Problem(f"{name} is not {state} after {limit:.0f} s; see its log {log}")
        time.sleep(POLL_SECONDS)


def _returns_200(url: str, context: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _reap(process: Process) -> None:
    """Reap the process if it is a child of this command; init reaps the others."""
    try:
        os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:
        return


def _record(layout: Layout, name: str) -> Path:
    return layout.run / "pids" / f"{name}.json"

"""Starts programs that outlive the command, and ends exactly those again.

A record per program holds its process id and the time the kernel started it, so that an id that
was given to another process since is never signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.cluster.layout import Layout

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL."""
GATE = 'read -r _ && exec "$@" </dev/null'
"""Becomes the program once a line comes in; ends if the command dies before it has written that."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One program that was started."""

    name: str
    pid: int
    started: int
    """Start time in clock ticks since boot, field 22 of /proc/PID/stat (proc(5))."""

    @property
    def alive(self) -> bool:
        """Return whether it still runs."""
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def start(
    layout: Layout, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None
) -> Process:
    """Start a program in a session of its own and record it; output goes to ``logs/NAME.log``."""
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
    # Recorded first: a program that nobody knows of would outlive `down`.
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as gate:
        gate.write(b"\n")
    return process


def hand_over(layout: Layout, name: str, pid: int) -> Process:
    """Record another process as the program: what was started only starts it and waits for it."""
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
    """Return all recorded programs, newest first: the order in which they are ended."""
    files = sorted(layout.run.glob("pids/*.json"), key=lambda f: f.stat().st_mtime_ns, reverse=True)
    return [Process(**json.loads(file.read_text(encoding="utf-8"))) for file in files]


def stop(layout: Layout, name: str, *, grace: float = GRACE) -> None:
    """End a recorded program: SIGTERM, then SIGKILL after ``grace`` seconds (0: at once)."""
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


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _reap(process: Process) -> None:
    """Take the exit status of a child of this very command; others are init's."""
    try:
        os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:
        return


def _record(layout: Layout, name: str) -> Path:
    return layout.run / "pids" / f"{name}.json"

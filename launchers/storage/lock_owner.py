"""Who holds a lock, and whether that process is known to be dead."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path

UNWRITTEN = "unwritten"
"""Token of a lock file whose creator was killed before it could write."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """One process that holds or wants a lock."""

    token: str
    """Unique to one use of one lock."""
    holder: str = ""
    """The pod or run."""
    host: str = ""
    pid: int = 0
    started: str = ""
    """The process's start, in clock ticks since boot: a pid may be used again."""
    place: str = ""
    """Boot id and pid namespace: only there does the pid mean anything. Pods of one JobSet keep
    their host name over restarts, and are pid 1 each time."""
    at: str = ""

    def text(self) -> str:
        """Spell it as the lock file's JSON."""
        return json.dumps(asdict(self)) + "\n"

    def __str__(self) -> str:
        """Name it in a log line."""
        return f"{self.holder or '?'}@{self.host or '?'}:{self.pid} since {self.at or '?'}"


def this_process(holder: str) -> Holder:
    """Describe this process, with a new token."""
    return Holder(
        token=uuid.uuid4().hex,
        holder=holder,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=_started(os.getpid()),
        place=_place(),
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def parse(text: str) -> Holder:
    """Read a lock file's text; an unreadable one has a holder without a name.

    >>> parse("").token
    'unwritten'
    """
    try:
        document = json.loads(text)
        return Holder(**{f.name: document[f.name] for f in fields(Holder)})
    except (ValueError, KeyError, TypeError):
        return Holder(token=UNWRITTEN)


def is_dead(holder: Holder) -> bool:
    """Tell whether the holder is a process of this pid namespace that has ended."""
    if not holder.place or holder.place != _place():
        return False
    return not holder.started or _started(holder.pid) != holder.started


def _started(pid: int) -> str:
    """Return when a process started (field 22 of ``/proc/<pid>/stat``); empty once it is dead."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if values[0] in "ZX" else values[19]


def _place() -> str:
    """Return what identifies this pid namespace; empty where /proc does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""

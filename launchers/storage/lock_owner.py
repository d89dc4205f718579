"""Owner of a lock: the process, and whether it is known to have ended."""

import json
import os
import re
import socket
import time
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from launchers.system.atomic_file import FOREIGN
from launchers.system.proc_stat import has_ended, read_stat

UNWRITTEN = "unwritten"
"""Token of a lock file whose creator was killed before writing it."""


@dataclass(frozen=True, kw_only=True)
class LockOwner:
    """One process that holds or waits for a lock."""

    token: str
    """Unique to one use of one lock."""
    holder: str = ""
    """The pod or run."""
    host: str = ""
    pid: int = 0
    started: str = ""
    """Start of the process, in clock ticks since boot: pids are reused."""
    place: str = ""
    """Boot id and pid namespace, in which the pid is valid. Pods of one JobSet keep their host name
    over restarts, with pid 1 each time."""
    at: str = ""

    def text(self) -> str:
        """Return the lock file's JSON."""
        return json.dumps(asdict(self)) + "\n"

    def __str__(self) -> str:
        """Return the text for log lines."""
        return f"{self.holder or '?'}@{self.host or '?'}:{self.pid} since {self.at or '?'}"


def this_process(holder: str) -> LockOwner:
    """Describe this process, with a new token."""
    return LockOwner(
        token=uuid.uuid4().hex,
        holder=holder,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=_started(os.getpid()),
        place=_place(),
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def parse_owner(text: str) -> LockOwner:
    """Parse a lock file; an unreadable one has an owner without a name."""
    try:
        document = json.loads(text)
        owner = LockOwner(**{f.name: document[f.name] for f in fields(LockOwner)})
        if re.fullmatch(r"[\w-]+", owner.token):  # it becomes a part of a file's name
            return owner
    except FOREIGN:
        pass
    return LockOwner(token=UNWRITTEN)


def is_dead(holder: LockOwner) -> bool:
    """Return whether the owner is known as a process of this pid namespace that has ended."""
    if not holder.place or holder.place != _place():
        return False
    started = _started(holder.pid)  # another one: the pid was reused
    return has_ended(holder.pid) or bool(started and holder.started and started != holder.started)


def is_alive(holder: LockOwner) -> bool:
    """Return whether the owner is known to run: a process of this pid namespace."""
    return bool(holder.place and holder.place == _place()) and not is_dead(holder)


def _started(pid: int) -> str:
    """Return the start of a process in clock ticks since boot; empty if it is not known."""
    stat = read_stat(pid)
    return "" if stat is None else str(stat.start_ticks)


def _place() -> str:
    """Return the identity of this pid namespace; empty if /proc lacks it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""

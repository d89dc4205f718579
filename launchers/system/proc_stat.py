"""State of a process, read from ``/proc/<pid>/stat`` (proc(5))."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ProcStat:
    """State, parent and start of a process."""

    state: str
    """One letter, e.g. ``R``, ``S`` or ``Z``."""
    parent: int
    start_ticks: int
    """Start time in clock ticks since boot."""

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")

    @property
    def has_ended(self) -> bool:
        """Return whether only the exit code is left: a zombie, or dead."""
        return self.state in ("Z", "X")


def has_ended(pid: int) -> bool:
    """Return whether a process is known to have ended.

    One that runs is not, nor one whose state cannot be read: no file descriptor is left, or the
    mount of /proc hides another user's processes (``hidepid``).
    """
    if (stat := read_stat(pid)) is not None:
        return stat.has_ended
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError) as error:
        return isinstance(error, ProcessLookupError)
    return False


def read_stat(pid: int | str) -> ProcStat | None:
    """Return the state of a process; None if there is no such process, or it cannot be read.

    ``pid``: process id, or ``self``.
    """
    try:
        # the second field, the command name, may hold spaces and brackets
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return ProcStat(state=fields[0], parent=int(fields[1]), start_ticks=int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None

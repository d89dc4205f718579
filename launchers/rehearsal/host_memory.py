"""Host memory in use by this pod, and its limit: from the cgroup, otherwise from /proc."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from launchers.system.memory_events import cgroup_folders
from launchers.system.process import descendants

_FILES = {
    2: ("memory.current", "memory.max", ("active_file", "inactive_file")),
    1: (
        *("memory.usage_in_bytes", "memory.limit_in_bytes"),
        ("total_active_file", "total_inactive_file"),
    ),
}
"""Per version of cgroups: bytes in use, limit, and the fields of ``memory.stat`` with the page
cache of files, which the kernel frees before it kills a process; shared memory is not part of it
(cgroup-v2.rst and cgroup-v1/memory.rst of the kernel's documentation)."""


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """One reading, in bytes."""

    used: int
    """In use without the page cache of files: what leads to an OOM kill at the limit."""
    limit: int | None
    """The container's limit, at most the host's memory; None if unknown."""


def read(root: Path = Path("/")) -> HostMemory | None:
    """Return the memory of this container; None if neither cgroup nor /proc can be read.

    Without a cgroup, the resident memory of this process and its descendants counts, in which pages
    that several processes share count several times, and the host's memory is the limit.

    Args:
        root: folder that holds ``proc`` and ``sys``.
    """
    total = _meminfo(root)
    for folder, version in cgroup_folders(root):
        usage, limit, caches = _FILES[version]
        used = _number(folder / usage)
        if used is None:
            continue
        cached = sum(_stat(folder / "memory.stat", field) for field in caches)
        bounds = [each for each in (_number(folder / limit), total) if each is not None]
        return HostMemory(used=max(0, used - cached), limit=min(bounds, default=None))
    used = sum(_resident(root, pid) for pid in (os.getpid(), *descendants(os.getpid())))
    return HostMemory(used=used, limit=total) if used else None


def _number(path: Path) -> int | None:
    """Read a file with one number; None for ``max`` or a file that can't be read."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _stat(path: Path, field: str) -> int:
    try:
        found = re.search(rf"^{field} (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _meminfo(root: Path) -> int | None:
    try:
        text = (root / "proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _resident(root: Path, pid: int) -> int:
    """Return the resident bytes of a process, 0 once it has ended (proc(5), ``statm``)."""
    try:
        pages = int((root / f"proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

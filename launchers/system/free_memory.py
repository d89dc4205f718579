"""Host memory that this container may still use."""

from __future__ import annotations

import re
from pathlib import Path


def available(root: Path = Path("/")) -> int:
    """Return the bytes that may still be allocated, by the host and by the container's limit.

    The host's are ``MemAvailable`` of ``/proc/meminfo``. The limit is that of cgroup v2 as a
    container sees it: ``memory.max`` less ``memory.current``, without the pages of files that the
    kernel can drop (``inactive_file``).

    Args:
        root: folder that holds ``proc`` and ``sys``.
    """
    free = _number(_read(root / "proc/meminfo"), r"^MemAvailable:\s*(\d+) kB") * 1024
    group = root / "sys/fs/cgroup"
    limit = _read(group / "memory.max").strip()
    if not limit.isdecimal():
        return free
    used = _number(_read(group / "memory.current"), r"^(\d+)")
    droppable = _number(_read(group / "memory.stat"), r"^inactive_file (\d+)")
    return max(0, min(free, int(limit) - used + droppable))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1]) if found else 0

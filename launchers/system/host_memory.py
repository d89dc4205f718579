"""Host memory of this pod, from the cgroup, otherwise from /proc: used, free, and lost to kills."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from launchers.system.process import descendants

_CACHES = ("active_file", "inactive_file", "slab_reclaimable")
_OLD_CACHES = ("total_active_file", "total_inactive_file")
_FILES = {
    2: ("memory.current", "memory.max", "shmem", _CACHES),
    1: ("memory.usage_in_bytes", "memory.limit_in_bytes", "total_shmem", _OLD_CACHES),
}
"""Per version of cgroups: bytes in use, limit, and fields of ``memory.stat``: shared memory, and
what the kernel frees before it kills a process, the page cache of files and (v2) caches of their
names. Shared memory, files on a tmpfs among it, is in use (cgroup-v2.rst and cgroup-v1/memory.rst
of the kernel's documentation)."""
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_MOUNT = re.compile(r"^\S+ \S+ (\S+) \S+ (\S+) .* - tmpfs ", re.MULTILINE)
"""Device and mount point of a tmpfs, in ``/proc/self/mountinfo`` (proc(5))."""


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """One reading, in bytes."""

    used: int
    """In use without the page cache of files: what leads to an OOM kill at the limit."""
    limit: int | None
    """The container's limit, at most the host's memory; None if unknown."""
    files: int | None = None
    """Files on a tmpfs in ``used``, at most: another pod may have written some of a tmpfs that both
    mount. None without a cgroup: they are not in ``used`` then."""


def _stored(mount: Path) -> int:
    """Return the bytes that a file system holds, 0 if it can't be asked."""
    try:
        found = os.statvfs(mount)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def read(root: Path = Path("/"), stored: Callable[[Path], int] = _stored) -> HostMemory | None:
    """Return the memory of this container; None if neither cgroup nor /proc can be read.

    Without a cgroup, the memory of this process and its descendants counts, without files that they
    map. Shared memory that several processes map counts several times, and the host's memory is the
    limit.
    ``root`` holds ``proc`` and ``sys``; ``stored`` returns the bytes that a file system holds.
    """
    total = _meminfo(root, "MemTotal")
    if (found := _of_cgroup(root)) is not None:
        bounds = [each for each in (found.limit, total) if each is not None]
        files = min(found.files or 0, _on_tmpfs(root, stored))
        return replace(found, limit=min(bounds, default=None), files=files)
    used = sum(_resident(root, pid) for pid in (os.getpid(), *descendants(os.getpid())))
    return HostMemory(used=used, limit=total) if used else None


def available(root: Path = Path("/")) -> int:
    """Return the bytes that may still be allocated, by the host and by the container's limit."""
    free = _meminfo(root, "MemAvailable") or 0
    found = _of_cgroup(root)
    if found is None or found.limit is None:
        return free
    return max(0, min(free, found.limit - found.used))


def _of_cgroup(root: Path) -> HostMemory | None:
    """Return the reading of the cgroup; its ``files`` are all of its shared memory."""
    for folder, version in cgroup_folders(root):
        usage, limit, shared, caches = _FILES[version]
        if (used := _number(folder / usage)) is not None:
            fields = re.findall(r"^(\w+) (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            stat = {name: int(value) for name, value in fields}
            return HostMemory(
                used=max(0, used - sum(stat.get(field, 0) for field in caches)),
                limit=_number(folder / limit),
                files=stat.get(shared, 0),
            )
    return None


def _on_tmpfs(root: Path, stored: Callable[[Path], int]) -> int:
    """Return the bytes of files on all tmpfs that this container mounts."""
    mounts = dict(_MOUNT.findall(_text(root / "proc/self/mountinfo")))  # of a tmpfs the last place
    return sum(stored(Path(place.replace("\\040", " "))) for place in mounts.values())


def _text(path: Path) -> str:
    """Return the text of a file of the kernel; empty if it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Read a file with one number; None for ``max`` or a file that can't be read."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _meminfo(root: Path, field: str) -> int | None:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _resident(root: Path, pid: int) -> int:
    """Return the bytes of a process without files, 0 once it has ended (proc(5), ``status``)."""
    text = _text(root / f"proc/{pid}/status")
    return sum(1024 * int(kb) for kb in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", text, re.M))


def oom_kills(root: Path = Path("/")) -> int | None:
    """Return the number of kills since the cgroup was made; None without a readable counter.

    A container sees its own cgroup at the mount point, a process of a host below it. The counter is
    in ``memory.events`` (cgroup v2, of the whole subtree) or in ``memory.oom_control`` (v1, since
    Linux 4.13), see cgroup-v2.rst and cgroup-v1/memory.rst of the kernel's documentation.
    """
    for folder, version in cgroup_folders(root):
        path = folder / ("memory.events" if version == 2 else "memory.oom_control")
        if found := _COUNT.search(_text(path)):
            return int(found[1])
    return None


def oom_kills_since(before: int | None) -> int | None:
    """Return the kills after ``oom_kills`` gave ``before``; None without a counter."""
    now = oom_kills()
    return None if before is None or now is None else now - before


def cgroup_folders(root: Path) -> list[tuple[Path, int]]:
    """List the folders that may hold this process's memory cgroup, the most specific first.

    Returns:
        Each folder with the version of its cgroup, 1 or 2.
    """
    lines = _text(root / "proc/self/cgroup").splitlines()
    mount = root / "sys/fs/cgroup"
    found: list[tuple[Path, int]] = []
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        own = path.lstrip("/")
        if not controllers:
            found += [(mount / own, 2), (mount, 2)]
        elif "memory" in controllers.split(","):
            found += [(mount / "memory" / each, 1) for each in (own, "")]
    return found

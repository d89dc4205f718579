"""Count of processes of this cgroup, the pod's container, that the kernel's OOM killer ended."""

from __future__ import annotations

import re
from pathlib import Path

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(root: Path = Path("/")) -> int | None:
    """Return the number of kills since the cgroup was made; None without a readable counter.

    A container sees its own cgroup at the mount point, a process of a host below it. The counter is
    in ``memory.events`` (cgroup v2, of the whole subtree) or in ``memory.oom_control`` (v1, since
    Linux 4.13), see cgroup-v2.rst and cgroup-v1/memory.rst of the kernel's documentation.

    Args:
        root: folder that holds ``proc`` and ``sys``.
    """
    for folder, version in cgroup_folders(root):
        path = folder / ("memory.events" if version == 2 else "memory.oom_control")
        try:
            found = _COUNT.search(path.read_text(encoding="utf-8"))
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def cgroup_folders(root: Path) -> list[tuple[Path, int]]:
    """List the folders that may hold this process's memory cgroup, the most specific first.

    Args:
        root: folder that holds ``proc`` and ``sys``.

    Returns:
        Each folder with the version of its cgroup, 1 or 2.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    mount = root / "sys/fs/cgroup"
    found: list[tuple[Path, int]] = []
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        own = path.lstrip("/")
        if not controllers:
            found += [(mount / own, 2), (mount, 2)]
        elif "memory" in controllers.split(","):
            found += [(mount / "memory" / each, 1) for each in (own, "")]
    return found

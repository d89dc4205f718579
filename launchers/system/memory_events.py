"""How often the kernel's OOM killer has ended a process of this cgroup: the pod's container."""

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
    for path in _candidates(root):
        try:
            found = _COUNT.search(path.read_text(encoding="utf-8"))
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def _candidates(root: Path) -> list[Path]:
    """List the files that may hold the counter, the most specific first."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    mount = root / "sys/fs/cgroup"
    found = []
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        own = path.lstrip("/")
        if not controllers:
            found += [mount / own / "memory.events", mount / "memory.events"]
        elif "memory" in controllers.split(","):
            found += [mount / "memory" / each / "memory.oom_control" for each in (own, "")]
    return found

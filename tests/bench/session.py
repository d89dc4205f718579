"""One command of a GPU visit, whose processes all end with it.

torchrun's workers lead their own sessions and survive its death, holding the port and the GPUs'
memory: this process becomes their subreaper and ends all descendants.
"""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launchers.system.process import adopt_orphans, kill_descendants

PAUSE = 0.5
"""Poll interval in seconds."""
GROUP = Path("/sys/fs/cgroup")
RESERVE = 0.02
"""Fraction of free host memory below which a run is ended, before the kernel kills the visit."""


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    *,
    limit: float,
    done: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> tuple[str, int | None]:
    """Run a command; return why it ended, and its exit code if it exited.

    ``done`` returns whether the command may be ended; ``look`` is called at each poll.

    Returns:
        ``exited``, ``done``, ``time limit`` or ``host memory``.
    """
    adopt_orphans()
    stop = time.monotonic() + limit
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while (why := _ended(process, stop, done)) is None:
                look()
                time.sleep(PAUSE)
            code = process.poll()
        finally:
            kill_descendants(timeout=20.0)
    return why, code if why == "exited" else None


def _ended(process: subprocess.Popen[bytes], stop: float, done: Callable[[], bool]) -> str | None:
    if done():
        return "done"
    if process.poll() is not None:
        return "exited"
    if time.monotonic() >= stop:
        return "time limit"
    free = min(left(Path("/proc/meminfo").read_text()), left_in_group(GROUP))
    return "host memory" if free < RESERVE else None


def left(meminfo: str) -> float:
    """Return the available fraction of the host's memory.

    >>> left("MemTotal: 200 kB\\nMemFree: 10 kB\\nMemAvailable: 50 kB\\n")
    0.25
    """
    lines = (line.split() for line in meminfo.splitlines())
    sizes = {words[0]: int(words[1]) for words in lines if len(words) > 1}
    return sizes["MemAvailable:"] / sizes["MemTotal:"]


def left_in_group(group: Path) -> float:
    """Return the available fraction of the container's memory; 1 without a limit.

    ``memory.current`` includes the page cache, which is reclaimable (kernel,
    Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files").
    """
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        words = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 1.0
    if limit == "max":
        return 1.0
    used -= int(words.get("inactive_file", 0)) + int(words.get("active_file", 0))
    return 1.0 - used / int(limit)

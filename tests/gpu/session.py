"""Run one command of a GPU visit, and leave no process of it behind.

torchrun's workers lead sessions of their own and outlive it when it is killed, with the port and
the GPUs' memory: this process adopts them and ends all that is below it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launchers.system.process import adopt_orphans, kill_descendants

PAUSE = 0.5
"""Seconds between two looks."""
GROUP = Path("/sys/fs/cgroup")
RESERVE = 0.02
"""Part of the host's memory below which a run is ended, before the kernel ends the whole visit."""


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    *,
    limit: float,
    done: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> tuple[str, int | None]:
    """Run a command to its end; return why it ended, and its exit code if it ended by itself.

    Args:
        argv: the command.
        env: its whole environment.
        log: where its output goes.
        limit: seconds that it may take.
        done: tells that nothing more is wanted of it.
        look: called now and then, to sample the machine.

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
            kill_descendants(patience=20.0)
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
    """Return the part of the host's memory that is still to be had.

    >>> left("MemTotal: 200 kB\\nMemFree: 10 kB\\nMemAvailable: 50 kB\\n")
    0.25
    """
    lines = (line.split() for line in meminfo.splitlines())
    sizes = {words[0]: int(words[1]) for words in lines if len(words) > 1}
    return sizes["MemAvailable:"] / sizes["MemTotal:"]


def left_in_group(group: Path) -> float:
    """Return the part of the container's memory that is still to be had; 1 without a limit.

    Files in the page cache are counted in ``memory.current`` and given back when needed (kernel,
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

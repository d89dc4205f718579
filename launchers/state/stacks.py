"""The stacks of this pod's training processes now, asked for by a person: ``state --stacks``.

The processes write them on a signal, as they do for a hang (``hang/stacks.py``).
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launchers.hang import stacks
from launchers.system.proc_stat import read_stat

OWN_SECONDS = 1.0
"""Age of the file from which the handler that writes it is known to be installed."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Process:
    """A training process: it holds open the file that its handler writes."""

    pid: int
    rank: str
    file: Path
    size: int


def dump() -> str:
    """Return the stacks of all training processes of this pod, under a line for each.

    A process that does not write them in time is named with its state (proc(5)).
    """
    found = sorted(processes(), key=lambda each: int(each.rank))
    for each in found:
        os.kill(each.pid, stacks.SIGNAL)
    limit = time.monotonic() + stacks.SECONDS
    while time.monotonic() < limit and any(stacks.size(each.file) <= each.size for each in found):
        time.sleep(_POLL_SECONDS)
    time.sleep(_POLL_SECONDS)  # the last file may still grow
    return "".join(map(_text, found)) or "no training process runs in this pod\n"


def processes() -> Iterator[Process]:
    """Yield the processes whose handler is installed, without their own children.

    A data loader's worker is a fork: it holds the same file open.
    """
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    held = {pid: found for pid in pids if (found := _held(pid))}
    for pid, (rank, file) in held.items():
        stat = read_stat(pid)
        if stat is not None and stat.parent not in held:
            yield Process(pid=pid, rank=rank, file=file, size=stacks.size(file))


def _held(pid: int) -> tuple[str, Path] | None:
    """Return the rank of a process and the file that it has had open for a while for its stacks."""
    env = _environ(pid)
    if stacks.FOLDER not in env or "LOCAL_RANK" not in env:
        return None
    file = stacks.path_of(Path(env[stacks.FOLDER]), int(env["LOCAL_RANK"]))
    try:
        opened = {each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()}
        is_old = time.time() - file.stat().st_mtime > OWN_SECONDS
    except OSError:  # it has ended, or is another user's
        return None
    return (env.get("RANK", "0"), file) if file in opened and is_old else None


def _environ(pid: int) -> dict[str, str]:
    try:
        items = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in items if "=" in item)


def _text(process: Process) -> str:
    stat = read_stat(process.pid)
    head = f"process of rank {process.rank}: pid {process.pid}, state {stat.state if stat else '-'}"
    try:
        with process.file.open("rb") as stream:
            stream.seek(process.size)
            added = stream.read().decode(errors="replace").strip("\n")
    except FileNotFoundError:
        added = ""
    return f"{head}\n{added or f'no stacks within {stacks.SECONDS:.0f} s'}\n"

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from signal import Signals

from launchers.system.proc_stat import read_stat


def is_running(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.has_ended


def signal_all(pids: Iterable[int], number: Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def commands() -> Iterator[tuple[int, str]]:
    """Return the processes of this machine with their command lines."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(path.parent.name), path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue

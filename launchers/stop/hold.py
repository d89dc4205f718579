"""``debug.holdMinutes``: a pod stays after the end of its run, for a person with a shell in it."""

import signal
import threading
from pathlib import Path

from launchers import logs
from launchers.exits import FREE, Exit
from launchers.hang import alive
from launchers.system import process


def hold(seconds: int, alive_file: Path | None, code: Exit) -> None:
    """Wait ``seconds`` or until SIGTERM or SIGINT; after a preemption or a stop, not at all.

    GPUs are free of processes; the exit code and the termination message stay those of
    the end. The liveness probe reads ``alive_file``, which is written meanwhile.
    """
    if not seconds or code in FREE:
        return
    process.kill_descendants()
    asked = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: asked.set())
    logs.warning("run held", code=int(code), minutes=round(seconds / 60, 1))
    with alive.beating(alive_file):
        asked.wait(seconds)

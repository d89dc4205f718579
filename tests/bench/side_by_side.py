"""Several tiny trainings on the same GPUs at once, since most of each is its start.

Each is a torchrun in its own session, so that a hanging one is ended without the others. The caller
assigns distinct ports.
"""

import math
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launchers.system.process import adopt_orphans, descendants, kill_descendants
from tests.bench.session import GROUP, left, left_in_group
from tests.launchers.processes import signal_all

PAUSE = 0.2
"""Poll interval in seconds."""
SHORTEST = 30.0
"""Minimum seconds left to start a training: imports alone take as long."""
ROOM = 0.2
"""Fraction of host memory that must be free to start another one."""


@dataclass(frozen=True, kw_only=True)
class Command:
    name: str
    words: Sequence[str]
    env: Mapping[str, str]
    log: Path


@dataclass(frozen=True, kw_only=True)
class Ended:
    why: str
    """``exited``, ``time limit`` or ``no time left``."""
    code: int | None
    seconds: float


@dataclass(kw_only=True)
class _Begun:
    process: subprocess.Popen[bytes]
    limit: float
    since: float = field(default_factory=time.monotonic)


def run(
    commands: Sequence[Command],
    *,
    at_once: int,
    limit: float,
    total: float = math.inf,
    lead: float = 0.0,
    after: Callable[[str, Ended], None] = lambda name, end: None,
) -> dict[str, Ended]:
    """Run all in order; return the end of each by name.

    ``lead`` seconds the first runs alone, to compile kernels; none is started after ``total``.
    """
    adopt_orphans()
    waiting, begun = list(commands), time.monotonic()
    running: dict[str, _Begun] = {}
    ended: dict[str, Ended] = {}
    try:
        while waiting or running:
            over = time.monotonic() - begun
            for name, end in _reap(running).items():
                ended[name] = end
                after(name, end)
            alone = bool(running) and not ended and over < lead
            if not waiting or alone or len(running) >= at_once or not _has_room(running):
                time.sleep(PAUSE)
            elif total - over < SHORTEST:
                name = waiting.pop(0).name
                ended[name] = Ended(why="no time left", code=None, seconds=0.0)
                after(name, ended[name])
            else:
                command = waiting.pop(0)
                running[command.name] = _begin(command, min(limit, total - over))
        return ended
    finally:
        kill_descendants()


def _begin(command: Command, limit: float) -> _Begun:
    with command.log.open("wb") as log:
        process = subprocess.Popen(
            command.words,
            env=command.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Begun(process=process, limit=limit)


def _reap(running: dict[str, _Begun]) -> dict[str, Ended]:
    """Remove finished trainings and end late ones."""
    found = {}
    for name, each in list(running.items()):
        seconds = time.monotonic() - each.since
        code, late = each.process.poll(), seconds >= each.limit
        if code is None and not late:
            continue
        if code is None:
            _kill(each.process)
        why = "time limit" if code is None else "exited"
        found[name] = Ended(why=why, code=code, seconds=round(seconds, 1))
        print(name, why, code, found[name].seconds, flush=True)
        del running[name]
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End one with its workers, which lead their own sessions."""
    signal_all([*descendants(process.pid), process.pid], signal.SIGKILL)
    process.wait()


def _has_room(running: Mapping[str, object]) -> bool:
    free = min(left(Path("/proc/meminfo").read_text()), left_in_group(GROUP))
    return not running or free > ROOM

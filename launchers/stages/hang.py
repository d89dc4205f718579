"""Detect a hang while torchrun runs: what this node's launcher does.

A thread reads the heartbeats of this node's training processes from the step board and sends rank 0
when all are silent (``hang/silence.py``). Rank 0's decision ends torchrun on all nodes
(``gang/hang_agreement.py``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launchers import logs
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Loss
from launchers.hang import flight_recorder, report, stacks
from launchers.hang.evidence import Scene
from launchers.hang.silence import NOTHING_RUNS, Silence, StepTimes, judge
from launchers.system.proc_stat import read_stat
from launchers.system.step_board import StepBoard
from launchers.system.threads import repeat

POLL_SECONDS = 1.0
END_SECONDS = 1.0
"""Time that torchrun has to end after a hang: its processes have nothing to save."""


class HangWatch:
    """Findings of the watch on this node."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Begin without a hang.

        Args:
            env: the variables by which the training processes leave evidence.
        """
        self.env = env
        self.error: LaunchError | None = None
        """The error that this node ends with, if the rank that hangs is one of its own."""
        self.has_ended = False
        """Whether the gang ends because of a hang."""

    def verdict(self, peers: PeerMonitor) -> LaunchError | None:
        """Return why this node ends, if the rank that hangs is one of its own.

        Called after the node's processes have ended, which may be before rank 0 has decided.
        """
        peers.hangs.await_decision()
        return self.error


@contextmanager
def watching(
    settings: Settings, board: StepBoard, peers: PeerMonitor, folder: Path, env: Mapping[str, str]
) -> Iterator[HangWatch]:
    """Watch the heartbeats of this node's training processes inside this context.

    Args:
        settings: this launcher's.
        board: the memory shared with the processes.
        peers: notified when the gang ends because of a hang.
        folder: of the attempt.
        env: the launcher's environment.
    """
    if not settings.hang.is_watched:
        yield HangWatch({})
        return
    with tempfile.TemporaryDirectory(prefix="dpo-hang-", ignore_cleanup_errors=True) as name:
        local, node = Path(name), settings.place.rank
        recorder = flight_recorder.environment(env, local)
        watch = HangWatch({**recorder, stacks.FOLDER: name})
        scene = Scene(board=board, node=node, local=local, attempt=folder)

        def end(culprit: int, cause: str) -> None:
            logs.error("hang", cause=cause, node=culprit)
            watch.has_ended = True
            if culprit == node:
                watch.error = report.error(cause)
            if peers.restarts.is_enabled:
                peers.restarts.is_asked = True
            else:
                peers.record_loss(Loss(who=f"rank {culprit}", cause=cause, code=Exit.HANG))

        peers.hangs.attach(scene.gather, partial(report.write, folder), end)
        look = _looking(board, settings.hang.floors)
        with repeat(lambda: peers.hangs.note(look()), POLL_SECONDS, "hang-watch"):
            yield watch
        peers.hangs.note(NOTHING_RUNS)


def _looking(board: StepBoard, floors: Mapping[str, int]) -> Callable[[], Silence | None]:
    """Return a function that judges this node's silence now.

    While a stop is requested the grace period is the limit, and no node counts as silent.
    """
    began, steps = time.monotonic(), StepTimes()

    def look() -> Silence | None:
        readings = board.read()
        steps.note(readings)
        if board.is_requested:
            return None
        return judge(
            readings,
            now=time.monotonic(),
            began=began,
            step=steps.median,
            floors=floors,
            has_ended=_has_ended,
        )

    return look


def _has_ended(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is None or stat.has_ended

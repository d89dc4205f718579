"""Detect a hang while torchrun runs: what this node's launcher does.

A thread reads the heartbeats of this node's training processes from the step board and sends rank 0
when all are silent (``hang/silence.py``). Rank 0's decision ends torchrun on all nodes
(``hang/agreement.py``).

Two hangs show on one node alone, which decides by itself: torchrun does not end after its processes
(its limit is longer than it waits for other nodes), and a process does not end to write a
checkpoint in the background, while all train on. So does a node whose processes have ended with
exit code 0 before the end of training, while torchrun waits for those of the other nodes.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launchers import logs
from launchers.config.settings import Launch
from launchers.exits import LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import PeerLoss
from launchers.hang import culprit, flight_recorder, record, stacks
from launchers.hang.culprit import Culprit
from launchers.hang.evidence import Scene
from launchers.hang.settings import Hang
from launchers.hang.silence import (
    NOTHING_RUNS,
    Silence,
    StepTimes,
    early_ends,
    judge,
    late_writes,
    limit_of_end,
    with_saves,
)
from launchers.hang.worker import Worker
from launchers.system.atomic_file import read_object
from launchers.system.proc_stat import has_ended, read_stat
from launchers.system.step_board import StepBoard
from launchers.system.threads import repeat
from launchers.system.training_end import incomplete

POLL_SECONDS = 1.0


class HangWatch:
    """Findings of the watch on this node."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Begin without a hang.

        ``env``: the variables by which the training processes leave evidence.
        """
        self.env = env
        self.torchrun = 0
        """Its process id; 0 until it is started."""
        self.error: LaunchError | None = None
        """The error that this node ends with, if the rank that hangs is one of its own."""
        self.has_ended = False
        """Whether this node's processes must end because of a hang, its own or another node's."""
        self.may_have_failed = False
        """Whether processes of this node ended before their training did: their logs may say why.
        torchrun, which has their exit codes, hangs or waits."""

    def end(self, peers: PeerMonitor, node: int, blamed: int, cause: str, kind: str) -> None:
        """End this node for a hang that rank 0 has decided on; ``blamed`` is the culprit's node."""
        logs.error("hang", cause=cause, node=blamed)
        error = record.error(cause, kind)
        self.has_ended = True
        if blamed == node:
            self.error, self.may_have_failed = error, kind == culprit.EXITED
        if peers.restarts.is_enabled:
            peers.restarts.is_asked = True
        else:
            peers.record_loss(PeerLoss(who=f"rank {blamed}", cause=cause, code=error.code))

    def end_own(
        self, scene: Scene, silence: Silence, found: Culprit, workers: Sequence[Worker] = ()
    ) -> None:
        """End this node for a hang that shows on it alone."""
        cause = record.sentence(silence, found)
        logs.error("hang", cause=cause, node=scene.node)
        record.write(scene.attempt, silence, workers, found)
        self.error, self.has_ended = record.error(cause), True

    def verdict(self, peers: PeerMonitor) -> LaunchError | None:
        """Return why this node ends, if the rank that hangs is one of its own.

        Called after the node's processes have ended, which may be before rank 0 has decided.
        """
        peers.hangs.await_decision()
        return self.error


@contextmanager
def watching(
    launch: Launch,
    hang: Hang,
    board: StepBoard,
    peers: PeerMonitor,
    folder: Path,
    env: Mapping[str, str],
) -> Iterator[HangWatch]:
    """Watch the heartbeats of this node's training processes inside this context."""
    if not hang.is_watched:
        yield HangWatch({})
        return
    with tempfile.TemporaryDirectory(prefix="dpo-hang-", ignore_cleanup_errors=True) as name:
        local, node = Path(name), launch.place.rank
        recorder = flight_recorder.environment(env, local)
        watch = HangWatch({**recorder, stacks.FOLDER: name})
        scene = Scene(board=board, node=node, local=local, attempt=folder)

        end = partial(watch.end, peers, node)
        peers.hangs.attach(scene.gather, partial(record.write, folder), end)
        steps = StepTimes(longest_save=_planned_save(launch.work.plan))
        floors = hang.floors
        look = _looking(board, floors, steps)
        look_at_end = _looking_at_end(watch, board, node, floors)

        def check() -> None:
            silence = look()
            peers.hangs.note(silence)
            if watch.has_ended:
                return
            late = look_at_end(silence)
            watch.may_have_failed = late is not None and early_end(board, node) is not None
            if isinstance(late, LaunchError):
                watch.error, watch.has_ended = late, True
            elif late is not None:
                watch.end_own(scene, *late)
            elif (late := _late_write(board, node, floors, steps)) is not None:
                watch.end_own(scene, *late, scene.gather())

        with repeat(check, POLL_SECONDS, "hang-watch"):
            yield watch
        peers.hangs.note(NOTHING_RUNS)


def _planned_save(plan: Path) -> float:
    """Return the seconds of a save as planned; 0 if unknown."""
    footprint = read_object(plan).get("footprint")
    planned = footprint.get("save_seconds") if isinstance(footprint, dict) else None
    return float(planned) if isinstance(planned, int | float) else 0.0


def _looking(
    board: StepBoard, floors: Mapping[str, int], steps: StepTimes
) -> Callable[[], Silence | None]:
    """Return a function that judges this node's silence now.

    While a stop is requested the grace period is the limit, and no node counts as silent.
    """
    began = time.monotonic()

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
            floors=with_saves(floors, steps.longest_save),
            has_ended=has_ended,
        )

    return look


def _looking_at_end(
    watch: HangWatch, board: StepBoard, node: int, floors: Mapping[str, int]
) -> Callable[[Silence | None], tuple[Silence, Culprit] | LaunchError | None]:
    """Return a function that judges whether torchrun has outlasted its processes for too long.

    It takes this node's silence, and returns None if torchrun has not, or an error if the processes
    have ended early.
    """
    since: float | None = None

    def look(silence: Silence | None) -> tuple[Silence, Culprit] | LaunchError | None:
        nonlocal since
        if silence is not NOTHING_RUNS or not watch.torchrun:
            since = None
            return None
        since = since or time.monotonic()
        stat = read_stat(watch.torchrun)
        if stat is None or stat.has_ended:
            return None
        seconds = time.monotonic() - since
        early = None if stat.is_stopped else early_end(board, node)
        limit = limit_of_end(waits=early is None and not stat.is_stopped, floors=floors)
        if seconds <= limit:
            return None
        if early is not None:
            return early
        late = Silence(seconds=seconds, limit=limit, phase="end")
        return late, culprit.torchrun(node, stat.state)

    return look


def early_end(board: StepBoard, node: int) -> LaunchError | None:
    """Return the error of a node whose processes have all ended, some before their training did."""
    readings = board.read()
    ranks = [node * len(readings) + local for local in early_ends(readings)]
    if not ranks:
        return None
    names = ", ".join(map(str, ranks))
    subject = f"rank {names} of node {node} has" if len(ranks) == 1 else f"ranks {names} have"
    return incomplete(f"{subject} ended early")


def _late_write(
    board: StepBoard, node: int, floors: Mapping[str, int], steps: StepTimes
) -> tuple[Silence, Culprit] | None:
    """Return which ranks of this node exceed the limit of a write in the background, if any do."""
    readings = board.read()
    floors = with_saves(floors, steps.longest_save)
    late = late_writes(readings, now=time.monotonic(), floors=floors, has_ended=has_ended)
    if late is None or board.is_requested:
        return None
    silence, local = late
    ranks = [node * len(readings) + each for each in local]
    return silence, culprit.writers(ranks, node, silence.seconds)

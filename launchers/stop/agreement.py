"""Agreement of all ranks on the boundary to save and stop at, after one of them received SIGTERM.

Not every pod of a gang receives SIGTERM: one node may be drained. The rank that does asks rank 0;
rank 0 asks every launcher to hold its training processes at their next boundary and to answer with
it; the highest of the answers is where all stop, since no process has passed it
(``system/step_board.py``). Rank 0 sends it to all. The messages:

    {"stop": "ask", "seconds": …}            any rank to rank 0: must end within so many seconds
    {"stop": "hold"}                         rank 0 to all
    {"stop": "answer", "boundary": …, …}     each rank to rank 0, see ``Answer``
    {"stop": "at", "boundary": …, "why": …, "ends": …}  the same; ``NOWHERE`` if they cannot save
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from launchers import logs
from launchers.gang.agreement import Agreement
from launchers.gang.protocol import Message
from launchers.system.step_board import NOWHERE, Phase, Reading, end_of_save, step_of

END_SECONDS, END_SHARE = 10.0, 0.25
"""Part of the grace period that is kept for ending torchrun and reporting: seconds, or a share of a
short one."""


def seconds_to_save(grace_seconds: float) -> float:
    """Return the part of the grace period in which a step must end and be saved.

    >>> seconds_to_save(300), seconds_to_save(20)
    (290.0, 15.0)
    """
    return grace_seconds - min(END_SECONDS, END_SHARE * grace_seconds)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Position of the training processes of one node."""

    boundary: int
    """The highest boundary at which one of them looks for the request; 0 if they cannot save."""
    why: str = ""
    needs_seconds: float = 0.0
    """Measured duration of what is under way, a step or a batch of an evaluation, and a save; 0
    without a save in this attempt."""

    @classmethod
    def of_processes(cls, readings: Iterable[Reading]) -> Answer:
        """Summarise the processes of a node.

        A save in progress is always finished; only a new one has to fit.
        """
        found = list(readings)
        phases = {each.phase for each in found}
        if not found or phases & {Phase.START, Phase.REFERENCE}:
            return cls(boundary=0, why="training has not begun")
        if any(each.boundary == 0 for each in found):
            return cls(boundary=0, why="no step has ended since the last checkpoint")
        step, batch, save = (
            max(getattr(each, f"{name}_seconds") for each in found)
            for name in ("step", "batch", "save")
        )
        runs = (step if Phase.STEP in phases else 0) + (batch if Phase.EVALUATION in phases else 0)
        is_new = phases <= {Phase.STEP, Phase.EVALUATION} and save > 0
        return cls(
            boundary=max(each.boundary for each in found),
            needs_seconds=runs + save if is_new else 0.0,
        )


def decide(answers: Mapping[int, Answer], seconds_left: float) -> tuple[int, str]:
    """Return the boundary at which all ranks stop, or ``NOWHERE`` and the reason.

    ``seconds_left`` until the first of the ranks must have ended.

    >>> decide({0: Answer(boundary=14), 1: Answer(boundary=16)}, 100.0)
    (16, '')
    >>> decide({0: Answer(boundary=14, needs_seconds=70.0)}, 20.0)
    (-1, 'a step or batch and a save take 70 s (measured), and 20 s are left')
    """
    for rank, answer in sorted(answers.items()):
        if answer.boundary == 0:
            return NOWHERE, f"rank {rank}: {answer.why}"
    needs = max(answer.needs_seconds for answer in answers.values())
    if needs > seconds_left:
        return NOWHERE, (
            f"a step or batch and a save take {needs:.0f} s (measured), and "
            f"{seconds_left:.0f} s are left"
        )
    return max(answer.boundary for answer in answers.values()), ""


class StopAgreement(Agreement):
    """One rank's part in the agreement on the boundary to stop at."""

    def __init__(
        self, nodes: int, send: Callable[[Message], None], *, is_leader: bool = True
    ) -> None:
        """Prepare for a request to stop; arguments as of ``Agreement``."""
        super().__init__(nodes, send, is_leader=is_leader)
        self._lock = threading.RLock()
        self._hold: Callable[[], Answer] = lambda: Answer(boundary=0, why="nothing is trained")
        self._release: Callable[[int], None] = lambda boundary: None
        self._answers: dict[int, Answer] = {}
        self._deadline = 0.0
        self.boundary = 0
        """From it on all ranks stop, ``NOWHERE`` if they do not; 0 until it is decided."""
        self.why = ""
        self.ends = ""
        """Why the run is done with this stop; empty if another attempt continues it."""
        self.over: Callable[[float], str] = lambda needs: ""
        """Rank 0's: why the run must end if a step and a save take so many seconds."""

    def attach(self, hold: Callable[[], Answer], release: Callable[[int], None]) -> None:
        """Connect this node's training processes.

        ``hold`` says at which boundary they wait, ``release`` sets the step at which they stop.
        """
        with self._lock:
            self._hold, self._release = hold, release

    @property
    def is_asked(self) -> bool:
        """Return whether this rank knows of a request to stop; rank 0 knows of each request."""
        return self._deadline > 0 or self.boundary != 0

    def ask(self, seconds: float) -> None:
        """Ask for the agreement: this rank must end within so many seconds.

        A rank that cannot save settles it for itself; the others learn of it when it ends.
        """
        if self.boundary:
            return  # another rank has asked
        own = self._hold()
        if own.boundary == 0:
            self._settle(NOWHERE, own.why)
        elif self._is_leader:
            self._begin(seconds)
        else:
            self._send({"stop": "ask", "seconds": seconds})

    def look(self, needs: float) -> None:
        """Begin the end of the run on rank 0 if it is due; ``needs`` as of ``over``."""
        if not self.is_asked and (why := self.over(needs)):
            self.ends = why
            self._begin(math.inf)

    def hear(self, rank: int, message: Message) -> None:
        """Handle a peer's message; others than those above are ignored."""
        word = message.get("stop")
        if word == "ask" and self._is_leader:
            self._begin(float(message["seconds"]))
        elif word == "answer" and self._is_leader:
            given = {name: message[name] for name in ("boundary", "why", "needs_seconds")}
            self._add(rank, Answer(**given))
        elif word == "hold" and not self._is_leader:
            self._send({"stop": "answer", **asdict(self._hold())})
        elif word == "at" and not self._is_leader:
            self.ends = str(message.get("ends") or "")
            self._settle(int(message["boundary"]), str(message["why"]))

    def _begin(self, seconds: float) -> None:
        """Ask all ranks; later requests join the first."""
        with self._lock:
            if self._deadline:
                return
            self._deadline = time.monotonic() + seconds
        self._send({"stop": "hold"})
        self._add(0, self._hold())

    def _add(self, rank: int, answer: Answer) -> None:
        """Note an answer on rank 0; decide once all have answered."""
        with self._lock:
            self._answers[rank] = answer
            if len(self._answers) < self._nodes or self.boundary:
                return
            boundary, why = decide(self._answers, self._deadline - time.monotonic())
            if self.ends and 0 < boundary == end_of_save(step_of(boundary)):
                boundary += 1  # that save has begun as one that is not exported
        self._send({"stop": "at", "boundary": boundary, "why": why, "ends": self.ends})
        self._settle(boundary, why)

    def _settle(self, boundary: int, why: str) -> None:
        self.boundary, self.why = boundary, why
        self._release(boundary)
        if boundary == NOWHERE:
            logs.warning("stopping without a checkpoint", why=why)
        else:
            logs.info("stopping with a checkpoint", step=step_of(boundary))

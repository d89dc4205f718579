"""Agreement of all ranks to start their training processes again, in the pods that they have.

The training processes of one rank fail, and its launcher reports that to rank 0 before it has ended
those that are left. Rank 0 has every rank end its own, and collects why each of them ended. Once
none is left it decides for all. The messages:

    {"restart": "failed"}                                each rank to rank 0: its processes fail
    {"restart": "ended", "who": …, …}                    each rank to rank 0, see ``Ended``
    {"restart": "end", "settles": …}                     rank 0 to all: end the training processes
    {"restart": "begin", "attempt": …, "resume": …}      rank 0 to all, see ``Begin``
    {"restart": "no", "why": …, "who": …, …}             rank 0 to all, see ``Declined``

A rank whose error rules out a restart sends none of these: it leaves the gang, as it always did,
and the others end as a cascade.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from launchers.gang.agreement import Agreement
from launchers.gang.protocol import Message, PeerLoss

AGREEMENT_SECONDS = 120.0
"""Time in which all ranks must have ended their training processes; rank 0 decides after it, and
the others wait for twice as long."""
POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of one rank's training processes, and its cause."""

    who: str
    code: int
    """The launcher's exit code if there is no restart."""
    cause: str
    is_cascade: bool
    """Whether they ended because of another rank."""
    is_external: bool = False
    """Whether they ended by a signal from outside, which no error of any rank has caused."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Rank 0's decision to start again."""

    attempt: int
    resume: str
    """Name of the checkpoint; empty without one."""


@dataclass(frozen=True, kw_only=True)
class Declined:
    """Rank 0's decision to leave the restart to the cluster."""

    why: str
    first: Ended
    """The rank that ended first, by its cause: it ends with its own exit code, the others as a
    cascade."""

    @property
    def loss(self) -> PeerLoss:
        """Return the loss with which the other ranks end."""
        return PeerLoss(who=self.first.who, cause=self.first.cause, code=self.first.code)


Decide = Callable[[Ended], Begin | str]
"""Rank 0's decision after the failure of the given rank; a text says why there is no restart."""


def first_of(ended: Sequence[Ended]) -> Ended:
    """Return the first report that names a cause of its own; the first one if none does."""
    return min(ended, key=lambda each: each.is_cascade)


class RestartAgreement(Agreement):
    """One rank's part in the agreement on a restart; ``agree`` runs in the main thread."""

    def __init__(
        self, nodes: int, send: Callable[[Message], None], *, is_leader: bool = True
    ) -> None:
        """Prepare for a failure; arguments as of ``Agreement``."""
        super().__init__(nodes, send, is_leader=is_leader)
        self._change = threading.Condition()
        self._ended: dict[int, Ended] = {}
        self._finished: set[int] = set()
        self._answer: Begin | Declined | None = None
        self._is_announcing = False
        """Whether rank 0 still sends that all must end: its decision must not overtake it, or a
        rank would end the processes that it has just started."""
        self.is_enabled = False
        """Whether this rank asks for a restart when its training processes fail."""
        self.patience = AGREEMENT_SECONDS
        """Seconds in which all ranks must report, after the first."""
        self.is_asked = False
        """Whether this rank must end its training processes, for all to start again."""
        self.settles = True
        """Whether they first get time to fail by themselves: they may have the error that was the
        cause of the first failure."""

    def hear(self, rank: int, message: Message) -> None:
        """Handle a peer's message; others than those above are ignored."""
        word = message.get("restart")
        if self._is_leader and word == "failed":
            self._ask(settles=True)
        elif self._is_leader and word == "ended":
            self._add(rank, Ended(**_fields(message, Ended)))
        elif "left" in message:
            self._finish(rank)
        elif not self._is_leader and word == "end":
            self.settles, self.is_asked = bool(message["settles"]), True
        elif not self._is_leader and word == "begin":
            self._take(Begin(**_fields(message, Begin)))
        elif not self._is_leader and word == "no":
            first = Ended(**_fields(message, Ended))
            self._take(Declined(why=str(message["why"]), first=first))

    def announce_failure(self) -> None:
        """Have all ranks end their training processes, since some of this rank have failed.

        The kernel may take seconds to end processes that hold a GPU's memory (7 to 9 s on H100):
        all nodes do that at the same time. Does nothing where this rank asks for no restarts.
        """
        if not self.is_enabled:
            return
        if self._is_leader:
            self._ask(settles=True)
        else:
            self._send({"restart": "failed"})

    def agree(self, ended: Ended, lost: threading.Event, decide: Decide) -> Begin | Declined | None:
        """Report that no training process of this rank is left; wait for rank 0's decision.

        ``decide`` is called on rank 0 only, once all ranks have reported, and may raise.

        Returns:
            The decision; None if a peer was lost before it, rank 0 has left the gang, or it has
            not decided in time.
        """
        if self._is_leader:
            return self._lead(ended, lost, decide)
        with self._change:
            self._answer = None
        self._send({"restart": "ended", **asdict(ended)})
        self._wait(self._is_answered, lost, 2 * self.patience)
        return self._answer

    def close(self) -> None:
        """Note that this rank's training is over: it can't begin again with the others."""
        self._finish(0)

    def _lead(self, ended: Ended, lost: threading.Event, decide: Decide) -> Begin | Declined | None:
        self._add(0, ended)
        self._wait(self._has_all, lost, self.patience)
        if lost.is_set():
            return None
        with self._change:
            why = self._missing()
            first = first_of(list(self._ended.values()))
        found = why or decide(first)
        if lost.is_set():
            return None
        with self._change:
            self._ended, self.is_asked, self.settles = {}, False, True
        if isinstance(found, str):
            self._decline(found, first)
            return Declined(why=found, first=first)
        self._send({"restart": "begin", **asdict(found)})
        return found

    def _add(self, rank: int, ended: Ended) -> None:
        """Note a rank's report on rank 0, after all ranks were asked to end their processes."""
        self._ask(settles=not ended.is_external)
        with self._change:
            self._ended[rank] = ended
            is_over = 0 in self._finished
            self._change.notify_all()
        if is_over:
            self._decline("rank 0 has finished training", ended)

    def _ask(self, *, settles: bool) -> None:
        """Ask all ranks on rank 0, once, to end their processes; not after rank 0 has finished."""
        with self._change:
            if self.is_asked:
                return
            self.settles, self.is_asked = settles, True
            if 0 in self._finished:
                return
            self._is_announcing = True
        self._send({"restart": "end", "settles": settles})
        with self._change:
            self._is_announcing = False
            self._change.notify_all()

    def _finish(self, rank: int) -> None:
        with self._change:
            self._finished.add(rank)
            waiting = list(self._ended.values()) if rank == 0 else []
            self._change.notify_all()
        if waiting:
            self._decline("rank 0 has finished training", first_of(waiting))

    def _decline(self, why: str, first: Ended) -> None:
        self._send({"restart": "no", "why": why, **asdict(first)})

    def _take(self, answer: Begin | Declined) -> None:
        """Note rank 0's decision; the request that it answers is over before a next one arrives."""
        with self._change:
            self._answer, self.is_asked, self.settles = answer, False, True
            self._change.notify_all()

    def _is_answered(self) -> bool:
        return self._answer is not None or 0 in self._finished

    def _has_all(self) -> bool:
        everyone = len(self._ended.keys() | self._finished) == self._nodes
        return everyone and not self._is_announcing

    def _missing(self) -> str:
        """Return why rank 0 can't decide for all; empty if it can."""
        if self._finished:
            return f"rank {min(self._finished)} has finished training"
        absent = [rank for rank in range(self._nodes) if rank not in self._ended]
        seconds = f"{self.patience:.0f} s"
        return f"rank {absent[0]} has not ended its processes in {seconds}" if absent else ""

    def _wait(self, holds: Callable[[], bool], lost: threading.Event, seconds: float) -> None:
        """Wait until ``holds()``, a peer is lost, or so many seconds have passed."""
        stop = time.monotonic() + seconds
        with self._change:
            while not holds() and not lost.is_set() and time.monotonic() < stop:
                self._change.wait(POLL_SECONDS)


def _fields(message: Message, kind: type[Ended] | type[Begin]) -> Message:
    """Return the fields of a dataclass from a message.

    >>> _fields({"restart": "begin", "attempt": 2, "resume": ""}, Begin)
    {'attempt': 2, 'resume': ''}
    """
    return {name: message[name] for name in kind.__dataclass_fields__}

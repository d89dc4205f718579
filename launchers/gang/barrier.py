"""The gang barrier: all ranks start together, and end together.

Rank 0 leads. It opens a port before its first stage, so that the others join while it
prepares; it starts the gang when every rank is present, agrees on recipe and launcher, and sees
rank 0's outputs on the shared workspace. The connections stay open while the run trains: a
rank that ends takes the others down within seconds, where NCCL would wait for its time-out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from launchers.exits import FREE, Exit, LaunchError
from launchers.gang.protocol import ALIVE, Closed, Line, Message

SILENCE = 60.0
"""Seconds without a sign of life after which a peer counts as lost."""
PULSE = 5.0
"""Seconds between two signs of life."""

Judge = Callable[[Sequence[Message]], None]
"""Raises what it finds wrong with the ranks' answers to rank 0."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A peer that ended before the run did."""

    who: str
    cause: str
    code: int = Exit.PEER
    """The peer's exit code, if it had time to say it."""

    def error(self) -> LaunchError:
        """Return the error of the ranks that end because of it: never a user code.

        After a peer that was preempted or terminated they end as it does, so that the restart
        is free whichever pod Kubernetes sees first.
        """
        code = Exit.TERMINATED if self.code in FREE else Exit.PEER
        return LaunchError(code, f"{self.who} ended: {self.cause}", f"see the log of {self.who}")

    def message(self) -> Message:
        """Spell it for the other ranks."""
        return {"lost": self.who, "cause": self.cause, "code": int(self.code)}


def loss_of(message: Message, who: str) -> Loss | None:
    """Parse what a peer says of its end, or of another's; None when it ended well or says else.

    >>> loss_of({"left": 78, "cause": "bad flag"}, "rank 1")
    Loss(who='rank 1', cause='bad flag', code=78)
    >>> loss_of({"left": 0, "cause": ""}, "rank 1") is None
    True
    """
    cause = str(message.get("cause", "unknown"))
    if "lost" in message:
        code = int(message.get("code", Exit.PEER))
        return Loss(who=str(message["lost"]), cause=cause, code=code)
    if message.get("left", int(Exit.OK)) != int(Exit.OK):
        return Loss(who=who, cause=cause, code=int(message["left"]))
    return None


@dataclass
class Bond:
    """What holds a rank to its gang while it trains."""

    lost: threading.Event = field(default_factory=threading.Event)
    loss: Loss | None = None
    tell: Callable[[Exit, str], None] = lambda code, cause: None
    """Tells the gang early how this rank is about to end."""
    _over: threading.Event = field(default_factory=threading.Event)

    def lose(self, loss: Loss) -> None:
        """Note the first loss; later ones are its echo."""
        if self.loss is None and not self._over.is_set():
            self.loss = loss
            self.lost.set()

    def end(self) -> None:
        """Stop minding: this rank's part is over."""
        self._over.set()

    @property
    def over(self) -> bool:
        """Tell whether this rank's part is over."""
        return self._over.is_set()


def pulse(bond: Bond, lines: Callable[[], list[Line]]) -> threading.Thread:
    """Send signs of life on all lines until the bond is over."""

    def beat() -> None:
        while not bond._over.wait(PULSE):
            for line in lines():
                try:
                    line.send(ALIVE)
                except Closed:
                    continue  # the reader of that line notices, and knows whose it is

    thread = threading.Thread(target=beat, name="gang-pulse", daemon=True)
    thread.start()
    return thread


def listen(bond: Bond, line: Line, who: str, *, last: Callable[[], None] = lambda: None) -> None:
    """Read a peer's messages while the gang trains, until it leaves or is lost.

    ``last`` is called when the peer has left.
    """
    try:
        while not bond.over:
            message = line.receive()
            loss = loss_of(message, who)
            if loss is not None:
                bond.lose(loss)
            if loss is not None or "left" in message:
                return
    except Closed as error:
        bond.lose(Loss(who=who, cause=f"no word from it: {error}"))
    finally:
        last()


def farewell(code: Exit, cause: str) -> Message:
    """Build a rank's last message."""
    return {"left": int(code), "cause": cause}


def until(deadline: float) -> float:
    """Return the seconds left until a monotonic time, at least 0."""
    return max(0.0, deadline - time.monotonic())

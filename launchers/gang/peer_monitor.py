"""Monitoring of the peers during training, over the connections of the gang.

A rank that ends, or falls silent, takes the others down within seconds; NCCL alone would wait for
its timeout.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from launchers import logs
from launchers.exits import Exit
from launchers.gang.protocol import KEEPALIVE, Closed, Connection, PeerLoss
from launchers.gang.restart_agreement import RestartAgreement
from launchers.hang.agreement import HangAgreement
from launchers.stop.agreement import StopAgreement
from launchers.system.threads import place_of

SILENCE_LIMIT_SECONDS = 55.0
"""Time without any message after which a peer counts as lost."""
KEEPALIVE_INTERVAL_SECONDS = 5.0


@dataclass
class PeerMonitor:
    """One rank's view of its peers: the first loss, and a way to announce its own end."""

    lost: threading.Event = field(default_factory=threading.Event)
    """Set once a peer was lost."""
    loss: PeerLoss | None = None
    """The first loss."""
    announce_end: Callable[[Exit, str], None] = lambda code, cause: None
    """Announces to the gang, before the process ends, how this rank is about to end."""
    agreement: StopAgreement = field(default_factory=lambda: StopAgreement(1, lambda _: None))
    """This rank's part in the agreement on where to save and stop."""
    hangs: HangAgreement = field(default_factory=lambda: HangAgreement(1, lambda _: None))
    """This rank's part in the agreement that the gang hangs."""
    restarts: RestartAgreement = field(default_factory=lambda: RestartAgreement(1, lambda _: None))
    """This rank's part in the agreement to start the training processes again."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_loss(self, loss: PeerLoss) -> None:
        """Record the first loss; later ones are its consequences."""
        with self._lock:
            is_first = self.loss is None and not self._stopped.is_set()
            if is_first:
                self.loss = loss
        if is_first:
            logs.warning("peer lost", peer=loss.who, cause=loss.cause)
            self.lost.set()

    def stop(self) -> None:
        """Stop monitoring peers; this rank is done."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Return whether this rank is done."""
        return self._stopped.is_set()

    def send_keepalives(self, connections: Callable[[], list[Connection]]) -> None:
        """Send keepalives on all connections, in a thread, until monitoring stops."""

        def work() -> None:
            while not self._stopped.wait(KEEPALIVE_INTERVAL_SECONDS):
                for connection in connections():
                    try:
                        connection.send(KEEPALIVE)
                    except Closed:
                        continue  # the thread that reads this connection records the loss
                    except Exception as error:
                        logs.warning("keepalive not sent", cause=repr(error), at=place_of(error))

        threading.Thread(target=work, name="gang-keepalive", daemon=True).start()

    def watch(
        self,
        connection: Connection,
        peer: str,
        *,
        rank: int = 0,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the messages of a peer, ``rank``, until it leaves or is lost; then ``on_end``."""
        try:
            while not self.is_stopped:
                message = connection.receive()
                loss = PeerLoss.from_wire(message, peer)
                if loss is not None:
                    self.record_loss(loss)
                self.restarts.hear(rank, message)
                if "left" in message:
                    self.hangs.leave(rank)
                if loss is not None or "left" in message:
                    return
                self.agreement.hear(rank, message)
                self.hangs.hear(rank, message)
        except Closed as error:
            self.record_loss(PeerLoss(who=peer, cause=f"its connection failed: {error}"))
        except Exception as error:  # nobody would read its messages any more
            at = place_of(error)
            cause = f"its message was not handled: {error!r} ({at})"
            self.record_loss(PeerLoss(who=peer, cause=cause))
        finally:
            on_end()

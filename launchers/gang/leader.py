"""Rank 0's side of the gang: admits peers, starts them, passes on the first loss."""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial

from launchers import logs
from launchers.exits import USER, Exit, LaunchError
from launchers.gang.barrier import (
    JudgeAnswers,
    format_ranks,
    incomplete,
    missing,
    refusal,
    seconds_until,
)
from launchers.gang.handshake import Handshakes, RefusalLog
from launchers.gang.peer_monitor import SILENCE_LIMIT_SECONDS, PeerMonitor
from launchers.gang.protocol import (
    Closed,
    Connection,
    Hello,
    Message,
    PeerLoss,
    StartMessage,
    end_message,
    server,
)
from launchers.gang.restart_agreement import RestartAgreement
from launchers.hang.agreement import HangAgreement
from launchers.stop.agreement import StopAgreement
from launchers.system.remedies import here
from launchers.system.threads import place_of

BACKLOG = 1024
"""Connections that wait to be accepted: strangers must not crowd out a rank."""
LATE_JOINER_TIMEOUT_SECONDS = 3.0
"""Time that a failing rank 0 waits for peers that have not joined yet, to send them the cause."""
_PEER_SECONDS = {Exit.OK: 30.0, Exit.PREEMPTED: 5.0}
"""Time that rank 0 waits until its peers have left, too: after success, and after all ranks have
saved and stopped, when rank 0 is about to be killed."""


class Leader:
    """Leads the gang of one run."""

    def __init__(self, own: Hello, port: int) -> None:
        """Open the gang port on all addresses, unless the run has one node."""
        self.own = own
        self.peers = PeerMonitor(
            announce_end=lambda code, cause: self._broadcast(end_message(code, cause)),
            agreement=StopAgreement(own.nodes, self._broadcast),
            hangs=HangAgreement(own.nodes, self._broadcast),
            restarts=RestartAgreement(own.nodes, self._broadcast),
        )
        self.generation = ""
        self._connections: dict[int, Connection] = {}
        self._hellos: dict[int, Hello] = {}
        self._change = threading.Condition()
        self._ready: dict[int, Message] = {}
        self._greeted: set[int] = set()
        self._left: set[int] = set()
        self._sent: dict[int, float] = {}
        """Unix time at which each rank was sent the start message."""
        self._stage = ""
        self._fatal_loss: PeerLoss | None = None
        """A peer's user error before the start: no restart can help."""
        self._final_message: Message | None = None
        self._refused = RefusalLog()
        self._handshakes: Handshakes | None = None
        if own.nodes > 1:
            self._open(port)

    def _open(self, port: int) -> None:
        try:
            listening = server(port, backlog=max(BACKLOG, self.own.nodes))
        except OSError as error:
            raise LaunchError(
                Exit.UNAVAILABLE,
                f"gang port {port} of rank 0: {error}",
                "free the port, or set another one: "
                + here("rendezvous.gangPort", "DPO_GANG_PORT on all hosts"),
                id="gang-port",
            ) from None
        self._handshakes = Handshakes(listening, self._introduce, self._refused)
        self.peers.send_keepalives(self._all_connections)

    def _all_connections(self) -> list[Connection]:
        with self._change:
            return list(self._connections.values())

    def _introduce(self, sock: socket.socket, peer: Hello, received: bytes) -> None:
        """Admit a peer, whose messages a thread of its own reads, or refuse it."""
        connection = Connection(sock, SILENCE_LIMIT_SECONDS, received)
        if self._admit(peer, connection):
            threading.Thread(target=self._serve, args=(peer, connection), daemon=True).start()

    def _serve(self, peer: Hello, connection: Connection) -> None:
        """Read the messages of a peer until it ends; one that causes an error is dropped."""
        try:
            self._read(peer, connection)
        except Exception as error:
            self._drop(peer, f"its message was not handled: {error!r} ({place_of(error)})")
            connection.close()

    def _read(self, peer: Hello, connection: Connection) -> None:
        logs.info("gang joined", peer=peer.name, present=len(self._hellos) + 1, of=peer.nodes)
        try:
            answer = connection.receive() | {"got": time.time(), "name": peer.name}
        except Closed as error:
            self._drop(peer, str(error))
            return
        if "ready" not in answer:
            self._drop_ended(peer, answer)
            return
        with self._change:
            self._ready[peer.rank] = answer | {"sent": self._sent.get(peer.rank, 0.0)}
            self._change.notify_all()
        on_end = partial(self._note, self._left, peer.rank)
        self.peers.watch(connection, peer.name, rank=peer.rank, on_end=on_end)

    def _admit(self, peer: Hello, connection: Connection) -> bool:
        """Let a peer join, or send it why it may not."""
        with self._change:
            no = refusal(self.own, peer, self._hellos, generation=self.generation)
            if no is None:
                first = self._final_message or {"stage": self._stage}
                with contextlib.suppress(Closed):  # the thread that reads notices it
                    connection.send(first | {"of": self.own.origin})  # before any broadcast
                self._greeted.add(peer.rank)
                self._hellos[peer.rank] = peer
                self._connections[peer.rank] = connection
                self._change.notify_all()
        if no is None:
            return True
        self._refused.note(no[1], peer=peer.name)
        with contextlib.suppress(Closed):
            connection.send({"refused": no[1], "code": int(no[0]), "of": self.own.origin})
        connection.close()
        if self.generation and no[0] == Exit.PEER:
            self.peers.record_loss(PeerLoss(who=peer.name, cause="its pod was replaced"))
        return False

    def _drop_ended(self, peer: Hello, answer: Message) -> None:
        """Drop a peer that left before the start; a user error of the peer ends the gang."""
        cause = str(answer.get("cause", "unknown"))
        if answer.get("left") in USER:
            self._fatal_loss = PeerLoss(who=peer.name, cause=cause)
        self._drop(peer, cause)

    def _drop(self, peer: Hello, cause: str) -> None:
        """Forget a peer that ended before the start, so that its successor may join."""
        logs.warning("gang dropped", peer=peer.name, cause=cause)
        with self._change:
            self._hellos.pop(peer.rank, None)
            self._connections.pop(peer.rank, None)
            self._ready.pop(peer.rank, None)
            self._sent.pop(peer.rank, None)
            if self.generation:
                self.peers.record_loss(PeerLoss(who=peer.name, cause=cause))
            self._change.notify_all()

    def _note(self, ranks: set[int], rank: int) -> None:
        with self._change:
            ranks.add(rank)
            self._change.notify_all()

    def announce(self, stage: str) -> None:
        """Send the stage that rank 0 is in to all peers, also to those that join later."""
        self._stage = stage
        self._broadcast({"stage": stage})

    def _broadcast(self, message: Message) -> None:
        """Send a message to every peer that has joined."""
        for connection in self._all_connections():
            with contextlib.suppress(Closed):
                connection.send(message)

    def await_joined(self, deadline: float) -> None:
        """Wait until every rank has joined, or one can't; ``start`` says which one is missing.

        ``deadline``: monotonic time until which all ranks must have joined.
        """

        def is_known() -> bool:
            return len(self._hellos) >= self.own.nodes - 1 or self._fatal_loss is not None

        self._wait_until(is_known, seconds_until(deadline))

    def start(
        self, message: StartMessage, deadline: float, judge: JudgeAnswers = lambda _: None
    ) -> None:
        """Start the gang once every rank is present and has answered the start message.

        ``deadline`` is monotonic; if ``judge`` raises, no rank starts.

        Raises:
            LaunchError: UNAVAILABLE naming the missing ranks, or PEER when one cannot run at all.
        """
        prepared = message.to_wire()
        with self._change:
            if absent := missing(self.own.nodes, self._hellos.keys()):
                # `why` reads this line: in a gang of two no other one says that a rank is missing.
                logs.info("gang awaited", missing=format_ranks(absent), of=self.own.nodes)
            while len(self._ready) < self.own.nodes - 1:
                for rank in self._connections.keys() - self._sent:
                    self._sent[rank] = time.time()
                    with contextlib.suppress(Closed):  # the thread that reads it drops the peer
                        self._connections[rank].send({"prepared": prepared})
                if not self._change.wait(seconds_until(deadline)) and seconds_until(deadline) == 0:
                    raise incomplete(self.own.nodes, self._hellos.keys(), self._ready.keys())
                if (loss := self._fatal_loss or self.peers.loss) is not None:
                    raise loss.error()
            judge([self._ready[rank] for rank in sorted(self._ready)])
            self.generation = secrets.token_hex(4)
        self._broadcast({"go": self.generation})
        logs.info("gang started", generation=self.generation, nodes=self.own.nodes)

    def give_up(self, error: LaunchError) -> None:
        """Let all peers end because of rank 0, which exits at once."""
        loss = PeerLoss(who=self.own.name, cause=error.cause, code=int(error.code))
        self._broadcast(loss.to_wire())

    def leave(self, code: Exit, cause: str) -> None:
        """Send the peers how rank 0 ended, and close all connections.

        After success it waits until they have left, too; after an error for those that are still
        starting, which would otherwise look for rank 0 until their deadline.
        """
        loss = self.peers.loss
        self.peers.stop()
        with self._change:
            is_cascade = code in (Exit.PEER, Exit.TERMINATED)
            self._final_message = (
                loss.to_wire() if loss and is_cascade else end_message(code, cause)
            )
        self._broadcast(self._final_message)
        if limit := _PEER_SECONDS.get(code):
            self._wait_until(lambda: self._left == self._ready.keys(), limit)
        elif code != Exit.TERMINATED:
            self._wait_until(self._are_all_greeted, LATE_JOINER_TIMEOUT_SECONDS)
        if self._handshakes is not None:
            self._handshakes.close()
        for connection in self._all_connections():
            connection.close()

    def _are_all_greeted(self) -> bool:
        return not missing(self.own.nodes, self._greeted)

    def _wait_until(self, holds: Callable[[], bool], seconds: float) -> None:
        stop = time.monotonic() + seconds
        with self._change:
            while not holds() and seconds_until(stop):
                self._change.wait(seconds_until(stop))

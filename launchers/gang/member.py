"""The side of the gang of every rank but 0: connects to rank 0, waits for the start, follows."""

import contextlib
import socket
import threading
import time
from functools import partial

from launchers import logs
from launchers.config.rank import is_loopback
from launchers.exits import Exit, LaunchError
from launchers.gang.barrier import seconds_until
from launchers.gang.peer_monitor import SILENCE_LIMIT_SECONDS, PeerMonitor
from launchers.gang.protocol import (
    Closed,
    Connection,
    Hello,
    Message,
    PeerLoss,
    StartMessage,
    end_message,
)
from launchers.gang.restart_agreement import RestartAgreement
from launchers.hang.agreement import HangAgreement
from launchers.stop.agreement import StopAgreement
from launchers.system.remedies import here, open_ports
from launchers.system.threads import in_thread

LOOKUP_INTERVAL_SECONDS = 1.0
"""Time between two look-ups of rank 0: name servers cache a missing name (5 s were seen)."""
LOOKUP_LOG_INTERVAL_SECONDS = 30.0
OWN_HOST_SECONDS = 60.0
"""Time for which rank 0 is looked for on this host: ranks that share a host start together."""


class Member:
    """Follows the leader, rank 0."""

    def __init__(self, own: Hello, address: str, port: int, deadline: float) -> None:
        """Connect to rank 0 and introduce this rank.

        Look-up and connection are retried together: after a restart the name may still resolve
        to the old pod, or to another run's that has its address now.

        Raises:
            LaunchError: UNAVAILABLE when rank 0 is not found before ``deadline`` (monotonic).
        """
        self.own = own
        self.peers = PeerMonitor(
            announce_end=self._announce_end,
            agreement=StopAgreement(own.nodes, self._send, is_leader=False),
            hangs=HangAgreement(own.nodes, self._send, rank=own.rank),
            restarts=RestartAgreement(own.nodes, self._send, is_leader=False),
        )
        self._heard = 0.0
        """Unix time at which the start message arrived."""
        self._connection, self._first = _introduce(own, address, port, deadline)
        self.peers.send_keepalives(lambda: [self._connection])

    def await_start_message(self) -> StartMessage:
        """Wait until rank 0 has prepared the run.

        Raises:
            LaunchError: the code of a refusal, or PEER when rank 0 ended.
        """
        seen = ""
        while True:
            message = self._receive()
            if "prepared" in message:
                self._heard = time.time()
                return StartMessage.from_wire(message["prepared"])
            if "stage" in message and message["stage"] != seen:
                seen = message["stage"]
                logs.info("waiting for rank 0", stage=seen)

    def ready(self, answer: Message | None = None) -> str:
        """Send rank 0 that this rank is ready; wait for the start, return the generation.

        The times by which rank 0 compares the clocks are added to ``answer``.
        """
        times = {"heard": self._heard, "said": time.time()}
        with contextlib.suppress(Closed):  # _receive raises the reason
            self._connection.send({"ready": self.own.pod, **times, **(answer or {})})
        while True:
            message = self._receive()
            if "go" in message:
                break
        threading.Thread(
            target=self.peers.watch,
            args=(self._connection, "rank 0"),
            name="gang-watch",
            daemon=True,
        ).start()
        return str(message["go"])

    def _receive(self) -> Message:
        try:
            message = self._first or self._connection.receive()
            self._first = {}
        except Closed as error:
            raise LaunchError(
                Exit.PEER, f"rank 0 is gone: {error}", "check the log of rank 0", id="leader-gone"
            ) from None
        if "refused" in message:
            raise LaunchError(
                Exit(message["code"]),
                message["refused"],
                "start all ranks of a run with the same recipe, launcher and number of nodes",
                id="gang-refused",
            )
        loss = PeerLoss.from_wire(message, "rank 0")
        if loss is not None:
            self.peers.record_loss(loss)  # this rank exits after the failed one: see run.leaving
            raise loss.error()
        return message

    def _announce_end(self, code: Exit, cause: str) -> None:
        self._send(end_message(code, cause))

    def _send(self, message: Message) -> None:
        with contextlib.suppress(Closed):  # the thread that reads records the loss
            self._connection.send(message)

    def leave(self, code: Exit, cause: str) -> None:
        """Send rank 0 how this rank ended, and close the connection."""
        self.peers.stop()
        self._announce_end(code, cause)
        self._connection.close()


def _introduce(own: Hello, address: str, port: int, deadline: float) -> tuple[Connection, Message]:
    """Connect and send the hello; return the connection and rank 0's first message.

    Again until the deadline if nothing answers, an old pod of rank 0 ends at that moment, strangers
    crowd its port, or what answers is not rank 0 of this gang: the address is stale.
    """
    started, reported, noted = time.monotonic(), 0.0, ""
    is_own = is_loopback(address)
    deadline = min(deadline, started + OWN_HOST_SECONDS) if is_own else deadline
    while True:
        try:
            connection, first = _ask(own, address, port, deadline)
            if first.get("of") == own.origin:
                return connection, first
            connection.close()
            cause = f"another program answers: {first.get('refused', 'it is not of this gang')}"
            if cause != noted:
                logs.warning("stale address of rank 0", at=f"{address}:{port}", cause=cause)
                noted = cause
        except (OSError, Closed) as error:
            cause = str(error)
        waited = time.monotonic() - started
        if seconds_until(deadline) == 0:
            itself = ", this host itself: set it to the address of rank 0" if is_own else ""
            raise LaunchError(
                Exit.UNAVAILABLE,
                f"rank 0 not found at {address}:{port} in {waited:.0f} s: {cause}",
                here(
                    "check that the pod of rank 0 runs and that its name resolves to it (kubectl "
                    "get pods -o wide)",
                    f"check that rank 0 runs at {address} (MASTER_ADDR{itself}), and "
                    f"{open_ports(port)}",
                ),
                id="leader-not-found",
            )
        if waited - reported >= LOOKUP_LOG_INTERVAL_SECONDS:
            reported = waited
            logs.info("looking for rank 0", at=f"{address}:{port}", seconds=waited, cause=cause)
        time.sleep(LOOKUP_INTERVAL_SECONDS)


def _ask(own: Hello, address: str, port: int, deadline: float) -> tuple[Connection, Message]:
    """Connect once and send the hello; return the connection and the first message."""
    timeout = max(1.0, min(10.0, seconds_until(deadline)))
    sock = in_thread(partial(socket.create_connection, (address, port), timeout=timeout))
    connection = Connection(sock, SILENCE_LIMIT_SECONDS)
    try:
        connection.send(own.to_wire())
        return connection, connection.receive()
    except Closed:
        connection.close()
        raise

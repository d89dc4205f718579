"""A rank's side of the gang, for every rank but 0: finds rank 0, waits, follows."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from functools import partial

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.gang.barrier import SILENCE, Bond, farewell, listen, loss_of, pulse, until
from launchers.gang.protocol import Closed, Hello, Line, Message
from launchers.system.threads import aside

PAUSE = 1.0
"""Seconds between two look-ups of rank 0: name servers cache a missing name (5 s were seen)."""


class Member:
    """Follows rank 0."""

    def __init__(self, own: Hello, address: str, port: int, deadline: float) -> None:
        """Find rank 0 and introduce this rank.

        Look-up and connection are retried together: after a restart the name may still lead
        to the old pod.

        Raises:
            LaunchError: UNAVAILABLE when rank 0 is not found before ``deadline`` (monotonic).
        """
        self.own = own
        self.bond = Bond(tell=self._tell)
        self._heard = 0.0
        self._line = _introduced(own, address, port, deadline)
        pulse(self.bond, lambda: [self._line])

    def await_prepared(self) -> Message:
        """Wait until rank 0 has prepared the run.

        Raises:
            LaunchError: the code of a refusal, or PEER when rank 0 ended.
        """
        seen = ""
        while True:
            message = self._receive()
            if "prepared" in message:
                self._heard = time.time()
                prepared: Message = message["prepared"]
                return prepared
            if "stage" in message and message["stage"] != seen:
                seen = message["stage"]
                logs.info("waiting for rank 0", stage=seen)

    def ready(self, answer: Message | None = None) -> str:
        """Say that this rank sees what was prepared; wait for the start, return the generation.

        ``answer`` is what rank 0 asked for; with it go the times between which clocks are compared.
        """
        times = {"heard": self._heard, "said": time.time()}
        with contextlib.suppress(Closed):  # _receive tells why
            self._line.send({"ready": self.own.pod, **times, **(answer or {})})
        while True:
            message = self._receive()
            if "go" in message:
                break
        threading.Thread(
            target=listen, args=(self.bond, self._line, "rank 0"), name="gang-listen", daemon=True
        ).start()
        return str(message["go"])

    def _receive(self) -> Message:
        try:
            message = self._line.receive()
        except Closed as error:
            raise LaunchError(
                Exit.PEER, f"rank 0 is gone: {error}", "see the log of rank 0"
            ) from None
        if "refused" in message:
            raise LaunchError(
                Exit(message["code"]), message["refused"], "start all ranks of one run alike"
            )
        loss = loss_of(message, "rank 0")
        if loss is not None:
            self.bond.lose(loss)  # so that it ends after the culprit, whose code must be seen first
            raise loss.error()
        return message

    def _tell(self, code: Exit, cause: str) -> None:
        with contextlib.suppress(Closed):
            self._line.send(farewell(code, cause))

    def leave(self, code: Exit, cause: str) -> None:
        """Tell rank 0 how this rank ended."""
        self.bond.end()
        self._tell(code, cause)
        self._line.close()


def _introduced(own: Hello, address: str, port: int, deadline: float) -> Line:
    """Connect and say hello, again if rank 0's old pod ends just then."""
    while True:
        line = Line(_connect(address, port, deadline), SILENCE)
        try:
            line.send(own.message())
        except Closed:
            line.close()
            time.sleep(PAUSE)
        else:
            return line


def _connect(address: str, port: int, deadline: float) -> socket.socket:
    started, reported = time.monotonic(), 0.0
    while True:
        try:
            timeout = max(1.0, min(10.0, until(deadline)))
            return aside(partial(socket.create_connection, (address, port), timeout=timeout))
        except OSError as error:
            cause = str(error)
        waited = time.monotonic() - started
        if until(deadline) == 0:
            raise LaunchError(
                Exit.UNAVAILABLE,
                f"rank 0 not found at {address}:{port} in {waited:.0f} s: {cause}",
                "see whether the pod of rank 0 runs, and its name resolves (kubectl get pods)",
            )
        if waited - reported >= 30:
            reported = waited
            logs.info("looking for rank 0", at=f"{address}:{port}", seconds=waited, cause=cause)
        time.sleep(PAUSE)

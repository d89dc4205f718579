"""Messages of the gang: one JSON object a line over TCP."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
LONGEST = 1 << 20
"""Bytes of the longest message; a line beyond it is no peer of ours."""


class Closed(Exception):
    """The other side is gone, or has been silent for too long."""


class Line:
    """One connection; ``send`` may be called from several threads, ``receive`` from one."""

    def __init__(self, sock: socket.socket, silence: float) -> None:
        """Wrap a connected socket; ``silence`` is the longest pause in seconds."""
        sock.settimeout(silence)
        self._sock = sock
        self._file = sock.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            Closed: when the other side is gone.
        """
        try:
            with self._sending:
                self._sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> Message:
        """Wait for the next message that is not a sign of life.

        Raises:
            Closed: at the connection's end, after ``silence``, at a line that is no message.
        """
        while True:
            try:
                text = self._file.readline(LONGEST)
                message = json.loads(text) if text.endswith(b"\n") else None
            except (OSError, ValueError) as error:
                raise Closed(str(error) or "timed out") from None
            if not isinstance(message, dict):
                raise Closed("connection closed")
            if message != ALIVE:
                return message

    def close(self) -> None:
        """End the connection; wakes a thread that waits in ``receive``."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


ALIVE: Message = {"alive": True}


@dataclass(frozen=True, kw_only=True)
class Hello:
    """How a rank introduces itself."""

    run: str
    rank: int
    nodes: int
    digest: str
    """Of recipe and launcher: equal on all ranks, or they would train different things."""
    pod: str
    node: str

    def message(self) -> Message:
        """Spell it for the wire."""
        return {"hello": vars(self)}

    @property
    def name(self) -> str:
        """Return the rank and where it runs."""
        where = " on ".join(filter(None, [self.pod, self.node]))
        return f"rank {self.rank}" + (f" ({where})" if where else "")


def hello_of(message: Message) -> Hello | None:
    """Parse an introduction; None when it is none.

    >>> hello_of(Hello(run="r", rank=1, nodes=2, digest="d", pod="", node="").message()).name
    'rank 1'
    """
    fields = message.get("hello")
    kinds = {"run": str, "rank": int, "nodes": int, "digest": str, "pod": str, "node": str}
    if not isinstance(fields, dict) or fields.keys() != kinds.keys():
        return None
    if not all(isinstance(fields[name], kind) for name, kind in kinds.items()):
        return None
    return Hello(**fields)


def server(port: int, backlog: int) -> socket.socket:
    """Listen on all addresses of this host, of either family where it has both."""
    if socket.has_dualstack_ipv6():
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=backlog)

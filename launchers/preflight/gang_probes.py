"""Probes between ranks before torchrun needs them: a nonce on the workspace, the master port."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from launchers.exits import LaunchError
from launchers.gang.protocol import server
from launchers.system import lookup
from launchers.system.atomic_file import replace
from launchers.system.threads import in_thread

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
NONCE_FILE = "nonce"
UNKNOWN = "unknown: "
"""Begins the answer of a node whose storage does not answer."""
NONCE_TIMEOUT_SECONDS = 60.0
"""Time for rank 0's file to appear: NFS clients cache a missing name for up to 60 s."""
CONNECT_TIMEOUT_SECONDS = 10.0
"""Longer than two retransmissions of a lost SYN (1 s, 3 s, 7 s)."""


def write_nonce(folder: Path) -> str:
    """Write a new nonce into a folder and return it."""
    word = secrets.token_hex(8)
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / NONCE_FILE, word + "\n")
    return word


def read_nonce(path: Path) -> str:
    """Return rank 0's nonce as soon as this node sees it.

    Returns:
        The nonce; empty if the file is missing at the timeout; ``UNKNOWN``, host, path and errno if
        this node's mount does not answer.
    """
    stop = time.monotonic() + NONCE_TIMEOUT_SECONDS
    while True:
        try:
            found = lookup.text(path)
        except LaunchError as error:
            return UNKNOWN + error.cause
        if found is not None or time.monotonic() >= stop:
            return (found or "").strip()
        time.sleep(0.5)


class PortProbe:
    """Rank 0's side: listens on the master port and sends a nonce to each peer."""

    def __init__(self, port: int, word: str, ranks: int) -> None:
        """Listen on all addresses.

        Raises:
            OSError: the port is in use.
        """
        self._word = word.encode()
        self._server = server(port, backlog=ranks)
        self._thread = threading.Thread(target=self._serve, name="preflight-port", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                guest, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._tell, args=(guest,), daemon=True).start()

    def _tell(self, guest: socket.socket) -> None:
        with guest, contextlib.suppress(OSError):
            guest.settimeout(CONNECT_TIMEOUT_SECONDS)
            guest.sendall(self._word)
            guest.shutdown(socket.SHUT_WR)
            guest.recv(1)  # wait for the peer's end, so that TIME_WAIT stays on its side

    def __enter__(self) -> PortProbe:
        """Return the listening probe."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Free the port; a thread blocked in ``accept`` would keep it bound."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(CONNECT_TIMEOUT_SECONDS)
        self._server.close()


def read_word(address: str, port: int) -> str:
    """Return rank 0's nonce, read from its master port.

    Raises:
        OSError: it cannot be reached.
    """

    def connect() -> str:
        with socket.create_connection((address, port), timeout=CONNECT_TIMEOUT_SECONDS) as sock:
            heard = b""
            while chunk := sock.recv(256):
                heard += chunk
        return heard.decode(errors="replace")

    return in_thread(connect)


def port_for_now() -> int:
    """Return a port that is free; the kernel may give it to any program a moment later."""
    with server(0, backlog=1) as sock:
        return int(sock.getsockname()[1])


def free_port() -> int:
    """Return a free port that the kernel gives to no program which asks for any port.

    Those come from ``ip_local_port_range`` (ip(7)); Kubernetes redirects some from 30000. Where no
    other port is free, it is ``port_for_now``.
    """
    try:
        first = int(EPHEMERAL.read_text(encoding="ascii").split()[0])
    except OSError:
        first = 0
    below = range(10_000, min(first, 30_000))
    for port in random.SystemRandom().sample(below, min(len(below), 100)):
        with contextlib.suppress(OSError), server(port, backlog=1):
            return port
    return port_for_now()

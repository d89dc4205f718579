"""Whether the other ranks can reach rank 0's master port, tried before torchrun needs it."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

from launchers.gang.protocol import server
from launchers.system.threads import aside

PATIENCE = 10.0
"""Seconds to connect: longer than a lost SYN is repeated twice (1 s, 3 s, 7 s)."""


class Door:
    """Rank 0's side: listens on the master port and tells whoever knocks a word."""

    def __init__(self, port: int, word: str, ranks: int) -> None:
        """Open the port on all addresses.

        Raises:
            OSError: another process has it.
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
            guest.settimeout(PATIENCE)
            guest.sendall(self._word)
            guest.shutdown(socket.SHUT_WR)
            guest.recv(1)  # its end first: the waiting state of TCP stays on its side

    def __enter__(self) -> Door:
        """Return the open door."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Free the port; a thread that waits in ``accept`` would keep it bound."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._server.close()


def knock(address: str, port: int) -> str:
    """Return rank 0's word, heard over its master port.

    Raises:
        OSError: it cannot be reached.
    """

    def hear() -> str:
        with socket.create_connection((address, port), timeout=PATIENCE) as sock:
            heard = b""
            while chunk := sock.recv(256):
                heard += chunk
        return heard.decode(errors="replace")

    return aside(hear)


def free_port() -> int:
    """Return a port of this host that nobody listens on just now."""
    with server(0, backlog=1) as sock:
        return int(sock.getsockname()[1])

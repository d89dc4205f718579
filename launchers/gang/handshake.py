"""Connections to the gang port until their first message: any program may connect to it.

One thread reads all of them, without blocking. A connection costs a file descriptor and at most
``MAX_HELLO_BYTES``; more than ``MAX_PENDING`` at a time, or ``HELLO_SECONDS`` without a hello, end
the oldest. A rank sends its hello at once after it has connected, so that it is read before others
push its connection out; if they do, the rank connects again.
"""

import contextlib
import errno
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from launchers import logs
from launchers.gang.protocol import Hello
from launchers.system.threads import place_of

MAX_PENDING = 256
MAX_HELLO_BYTES = 4096
HELLO_SECONDS = 10.0
POLL_SECONDS = 0.5
LINES_PER_INTERVAL, LOG_INTERVAL_SECONDS = 5, 30.0
"""Log lines about refused connections; the others are counted."""
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Introduce = Callable[[socket.socket, Hello, bytes], None]
"""Takes a connection over, with its hello and the bytes that were read after it."""


@dataclass
class RefusalLog:
    """Log lines about connections that are not of the gang, limited in number."""

    _since: float = 0.0
    _lines: int = 0
    _hidden: int = 0

    def note(self, cause: str, **fields: object) -> None:
        """Log a refused connection, unless there were many recently."""
        now = time.monotonic()
        if self._lines == 0 or now - self._since >= LOG_INTERVAL_SECONDS:
            if self._hidden:
                logs.warning("gang refused more connections", count=self._hidden)
            self._since, self._lines, self._hidden = now, 0, 0
        if self._lines < LINES_PER_INTERVAL:
            self._lines += 1
            logs.warning("gang refused", cause=cause, **fields)
        else:
            self._hidden += 1


class Handshakes:
    """Accepts connections and reads their hellos."""

    def __init__(self, server: socket.socket, introduce: Introduce, refused: RefusalLog) -> None:
        """Serve a listening socket in a thread; ``introduce`` is called there and must not block.

        ``introduce`` takes over each connection that has sent a hello; ``close`` closes ``server``.
        """
        self._server, self._introduce, self._refused = server, introduce, refused
        self._pending: dict[socket.socket, tuple[float, bytearray]] = {}
        """Time of acceptance and bytes read, the oldest first."""
        self._ended = threading.Event()
        server.setblocking(False)
        threading.Thread(target=self._serve, name="gang-accept", daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port."""
        port: int = self._server.getsockname()[1]
        return port

    @property
    def pending(self) -> int:
        """Return the number of connections without a hello."""
        return len(self._pending)

    def close(self) -> None:
        """Stop accepting; connections without a hello are closed."""
        self._ended.set()
        self._server.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            while not self._ended.is_set():
                for key, _ in selector.select(POLL_SECONDS):
                    if key.fileobj is self._server:
                        self._accept(selector)
                    elif key.fileobj in self._pending:
                        assert isinstance(key.fileobj, socket.socket)
                        self._read(selector, key.fileobj)
                self._drop_late(selector)
            for sock in list(self._pending):
                self._drop(selector, sock)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        """Accept one connection, in place of the oldest one if there are too many."""
        if len(self._pending) >= MAX_PENDING:
            self._refuse(selector, next(iter(self._pending)), "too many connections")
        try:
            sock, _ = self._server.accept()
        except OSError as error:
            if error.errno in _NO_RESOURCES and self._pending:
                self._refuse(selector, next(iter(self._pending)), "no file descriptors are left")
            return
        sock.setblocking(False)
        self._pending[sock] = (time.monotonic(), bytearray())
        selector.register(sock, selectors.EVENT_READ)

    def _read(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        _, received = self._pending[sock]
        try:
            piece = sock.recv(MAX_HELLO_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        received += piece
        line, newline, rest = bytes(received).partition(b"\n")
        if newline and (hello := _parse(line)) is not None:
            del self._pending[sock]
            selector.unregister(sock)
            sock.setblocking(True)
            try:
                self._introduce(sock, hello, rest)
            except Exception as error:  # no other rank could join
                self._refused.note(f"{error!r} ({place_of(error)})", peer=hello.name)
                sock.close()
        elif newline or len(received) > MAX_HELLO_BYTES:
            self._refuse(selector, sock, "the first message is not that of a rank")
        elif not piece:
            self._drop(selector, sock)

    def _drop_late(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        for sock, (since, _) in list(self._pending.items()):
            if now - since < HELLO_SECONDS:
                return
            self._refuse(selector, sock, f"no message within {HELLO_SECONDS:.0f} s")

    def _refuse(self, selector: selectors.BaseSelector, sock: socket.socket, cause: str) -> None:
        peer = "?"
        with contextlib.suppress(OSError):
            peer = str(sock.getpeername()[0])
        self._refused.note(cause, peer=peer)
        self._drop(selector, sock)

    def _drop(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        del self._pending[sock]
        selector.unregister(sock)
        sock.close()


def _parse(line: bytes) -> Hello | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Hello.from_wire(message) if isinstance(message, dict) else None

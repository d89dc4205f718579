"""Programs that connect to the gang port and are not of the gang."""

import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from launchers.exits import Exit
from launchers.gang.leader import Leader
from launchers.gang.protocol import Hello
from launchers.preflight.gang_probes import free_port

RETRY_SECONDS = 0.02


def garbage(sock: socket.socket) -> None:
    sock.sendall(bytes(range(256)) * 16)


def oversized(sock: socket.socket) -> None:
    """Send a line without an end, until the other side has had enough."""
    for _ in range(256):
        sock.sendall(b'{"hello": "' + b"x" * 65536)


def slow(sock: socket.socket) -> None:
    """Send a byte at a time and never end the line."""
    for _ in range(600):
        sock.sendall(b" ")
        time.sleep(0.1)


def wrong_digest(sock: socket.socket) -> None:
    """Introduce itself as a rank of this run with another recipe."""
    hello = Hello(run="r", rank=1, nodes=2, processes=1, digest="0" * 64, pod="stranger", node="")
    sock.sendall(json.dumps(hello.to_wire()).encode() + b"\n")
    while sock.recv(4096):
        pass


def silent(sock: socket.socket) -> None:
    while sock.recv(4096):
        pass


def half_open(sock: socket.socket) -> None:
    """Close with a reset in the middle of a line."""
    sock.sendall(b'{"hello": ')
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


KINDS: dict[str, Callable[[socket.socket], None]] = {
    "garbage": garbage,
    "oversized": oversized,
    "slow": slow,
    "wrong-digest": wrong_digest,
    "silent": silent,
    "half-open": half_open,
}


@contextmanager
def stale_address(port: int, count: int) -> Iterator[int]:
    """Yield a port that leads to rank 0 of another run ``count`` times, then to ``port``."""
    digest, foreign = "0" * 64, free_port()
    own = Hello(run="other", rank=0, nodes=2, processes=1, digest=digest, pod="stranger", node="")
    leader = Leader(own, foreign)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def work() -> None:
            with contextlib.suppress(OSError):  # closed
                for number in itertools.count():
                    near = listening.accept()[0]
                    _join(near, foreign if number < count else port)

        threading.Thread(target=work, daemon=True).start()
        yield listening.getsockname()[1]
    leader.leave(Exit.TERMINATED, "the case has ended")


def _join(near: socket.socket, port: int) -> None:
    """Pass bytes between a connection and a port until either side ends."""
    try:
        far = socket.create_connection(("127.0.0.1", port), timeout=2)
    except OSError:
        near.close()
        return
    far.settimeout(None)

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    for pair in ((near, far), (far, near)):
        threading.Thread(target=copy, args=pair, daemon=True).start()


@contextmanager
def connecting(port: int, kind: str, count: int) -> Iterator[None]:
    """Keep ``count`` such connections to a port of this machine, from when it opens."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=2) as sock,
            ):
                sock.settimeout(2)
                KINDS[kind](sock)
            ended.wait(RETRY_SECONDS)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()

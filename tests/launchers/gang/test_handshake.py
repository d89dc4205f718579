"""Strangers on the gang port: garbage, floods, slow and silent connections."""

import json
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from launchers.exits import Exit
from launchers.gang import handshake
from launchers.gang.handshake import MAX_PENDING, Handshakes, RefusalLog
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Hello, StartMessage
from launchers.preflight.gang_probes import free_port
from tests.launchers.waiting import eventually

OWN = Hello(run="r", rank=0, nodes=2, processes=8, digest="d" * 64, pod="r-node-0-0", node="n0")
PEER = replace(OWN, rank=1, pod="r-node-0-1")
FLOOD = 10_000


@contextmanager
def leading() -> Iterator[tuple[Leader, int]]:
    port = free_port()
    leader = Leader(OWN, port)
    try:
        yield leader, port
    finally:
        leader.leave(Exit.TERMINATED, "test over")


def seconds_to_start(leader: Leader, port: int) -> float:
    """Let the real rank join and start the gang."""
    begun = time.monotonic()

    def follow() -> None:
        member = Member(PEER, "127.0.0.1", port, time.monotonic() + 60)
        member.await_start_message()
        member.ready()
        member.leave(Exit.OK, "")

    thread = threading.Thread(target=follow)
    thread.start()
    leader.start(StartMessage(attempt=1), time.monotonic() + 60)
    thread.join(60)
    return time.monotonic() - begun


def connect(port: int, stack: ExitStack, content: bytes) -> socket.socket:
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
    sock.sendall(content)
    return sock


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(10)
    try:
        return sock.recv(1) == b""
    except OSError:
        return True


def test_10000_connections_delay_the_start_little_and_hold_few_resources() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FLOOD + 1000:
        pytest.skip(f"only {soft} file descriptors")
    stranger = json.dumps({"hello": vars(replace(PEER, digest="e" * 64))}).encode() + b"\n"
    contents = (b"", b"GET / HTTP/1.1\r\n", b"\xff" * 100, b'{"hello": ', stranger)
    with leading() as (leader, port), ExitStack() as stack:
        before = threading.active_count()
        for number in range(FLOOD // 2):
            connect(port, stack, contents[number % len(contents)])
        flood = threading.Thread(
            target=lambda: [connect(port, stack, contents[0]) for _ in range(FLOOD // 2)]
        )
        flood.start()
        seconds = seconds_to_start(leader, port)
        flood.join(60)
        assert leader._handshakes is not None and leader._handshakes.pending <= MAX_PENDING
        assert threading.active_count() - before < 10
        assert leader.peers.loss is None
    print(f"the gang started within {seconds:.2f} s")
    assert seconds < 15


NO_HELLOS = [b"\xff\xfe\n", b'{"hello": 3}\n', b"[" * 3000 + b"\n", b"x" * 5000, b"\n"]


@pytest.mark.parametrize("content", [*NO_HELLOS, b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_hello_closes_the_connection(content: bytes) -> None:
    with leading() as (leader, port), ExitStack() as stack:
        assert is_closed(connect(port, stack, content))
        assert seconds_to_start(leader, port) < 20
        assert leader.peers.loss is None


def test_a_silent_and_a_slow_connection_end_after_the_time_for_a_hello(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "HELLO_SECONDS", 0.5)
    with leading() as (leader, port), ExitStack() as stack:
        silent, slow = connect(port, stack, b""), connect(port, stack, b"{")
        stop = time.monotonic() + 0.8
        while time.monotonic() < stop:
            with suppress(OSError):  # closed
                slow.send(b" ")
            time.sleep(0.1)
        assert is_closed(silent)
        assert is_closed(slow)
        assert leader._handshakes is not None and leader._handshakes.pending == 0


def test_a_rank_whose_hello_comes_in_pieces_joins_with_what_follows() -> None:
    got: list[tuple[Hello, bytes]] = []
    listening = socket.create_server(("127.0.0.1", 0))
    shakes = Handshakes(listening, lambda _, hello, rest: got.append((hello, rest)), RefusalLog())
    text = json.dumps(PEER.to_wire()).encode() + b'\n{"alive": true}\n{"rea'
    with socket.create_connection(("127.0.0.1", shakes.port)) as sock:
        for start in range(0, len(text), 50):
            sock.sendall(text[start : start + 50])
            time.sleep(0.01)
        assert eventually(lambda: bool(got))
    shakes.close()
    assert got[0][0] == PEER
    assert text.partition(b"\n")[2].startswith(got[0][1])


def test_a_rank_that_was_crowded_out_connects_again() -> None:
    with leading() as (leader, port):
        assert leader._handshakes is not None
        inner, seen = leader._handshakes._introduce, []

        def refuse_once(sock: socket.socket, hello: Hello, rest: bytes) -> None:
            seen.append(hello)
            if len(seen) == 1:
                sock.close()
            else:
                inner(sock, hello, rest)

        leader._handshakes._introduce = refuse_once
        assert seconds_to_start(leader, port) < 30
        assert seen == [PEER, PEER]


def test_log_lines_about_strangers_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            log.note("garbage", peer="10.0.0.1")
    assert len(caplog.records) == handshake.LINES_PER_INTERVAL
    log._since -= handshake.LOG_INTERVAL_SECONDS
    log.note("garbage", peer="10.0.0.1")
    assert "count=995" in caplog.records[-2].getMessage()

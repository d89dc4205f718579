"""A stale address leads a rank to another gang: neither of the two ends because of it."""

import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest

from launchers.exits import Exit, LaunchError
from launchers.gang import member
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.preflight.gang_probes import free_port
from tests.launchers.gang.test_barrier import OWN, has_joined, led, peer, soon, started


@pytest.mark.parametrize(("run", "gang"), [("b", "uid/0"), ("r", "other/0"), ("r", "uid/1")])
def test_a_member_that_a_stale_address_leads_to_another_gang_finds_its_own_later(
    run: str, gang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of pods return with each release and restart, and their addresses are reused."""
    monkeypatch.setattr(member, "LOOKUP_INTERVAL_SECONDS", 0.05)
    port = free_port()
    got: list[Member] = []
    own = replace(OWN, nodes=2, gang="uid/0")
    foreign = Leader(replace(own, digest="e" * 64, run=run, gang=gang), port)

    def join() -> None:
        got.append(Member(replace(own, rank=1), "127.0.0.1", port, soon()))

    thread = threading.Thread(target=join)
    thread.start()
    time.sleep(0.3)
    assert not got and foreign._hellos == {} and foreign.peers.loss is None
    foreign.leave(Exit.TERMINATED, "its pod is gone, and the name leads to the right one")
    right = Leader(own, port)
    thread.join(10)
    assert has_joined(right)
    got[0].leave(Exit.TERMINATED, "test over")
    right.leave(Exit.TERMINATED, "test over")


@pytest.mark.parametrize(
    "answer",
    [
        b'{"refused": "rank 1 belongs to run \'r\', not to \'other\'", "code": 78}\n',
        b'{"left": 78, "cause": "bad flag"}\n',
        b'{"jsonrpc": "2.0"}\n',
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
    ],
)
def test_what_another_program_answers_ends_no_run_before_the_deadline(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "LOOKUP_INTERVAL_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        seen: list[bytes] = []

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    with listening.accept()[0] as sock:
                        seen.append(sock.recv(4096))
                        sock.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(LaunchError) as lost:
            Member(peer(1), "127.0.0.1", listening.getsockname()[1], time.monotonic() + 0.3)
        assert (lost.value.code, lost.value.id) == (Exit.UNAVAILABLE, "leader-not-found")
        assert "MASTER_ADDR, this host itself" in lost.value.remedy
        assert len(seen) > 1


def test_rank_0_of_another_run_loses_nobody_by_a_stale_address() -> None:
    with led(nodes=2) as (lead, join):
        started(lead, join, nodes=2)
        port = lead._handshakes.port if lead._handshakes else 0
        with pytest.raises(LaunchError):
            Member(peer(1, nodes=2, run="other"), "127.0.0.1", port, time.monotonic() + 0.1)
        assert lead.peers.loss is None

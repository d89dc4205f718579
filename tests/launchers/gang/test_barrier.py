import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.exits import Exit, LaunchError
from launchers.gang import leader, member, peer_monitor
from launchers.gang.barrier import format_ranks, refusal
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Closed, Connection, Hello, PeerLoss, StartMessage
from launchers.preflight.gang_probes import free_port
from tests.launchers.waiting import eventually

OWN = Hello(run="r", rank=0, nodes=3, processes=8, digest="d" * 64, pod="r-node-0-0", node="n0")
START = StartMessage(attempt=1)


def peer(rank: int, **change: str | int) -> Hello:
    return replace(OWN, rank=rank, pod=f"r-node-0-{rank}", **change)  # type: ignore[arg-type]


def soon() -> float:
    return time.monotonic() + 5


@contextmanager
def led(nodes: int = 3) -> Iterator[tuple[Leader, Callable[[int], Member]]]:
    port = free_port()
    lead = Leader(replace(OWN, nodes=nodes), port)
    members: list[Member] = []

    def join(rank: int) -> Member:
        members.append(Member(peer(rank, nodes=nodes), "127.0.0.1", port, soon()))
        return members[-1]

    try:
        yield lead, join
    finally:
        lead.leave(Exit.TERMINATED, "test over")
        for one in members:
            one.leave(Exit.TERMINATED, "test over")


def started(
    lead: Leader, join: Callable[[int], Member], nodes: int = 3, message: StartMessage = START
) -> list[Member]:
    def follow(one: Member) -> tuple[StartMessage, str]:
        return one.await_start_message(), one.ready()

    members = [join(rank) for rank in range(1, nodes)]
    with ThreadPoolExecutor() as threads:
        got = [threads.submit(follow, one) for one in members]
        lead.start(message, soon())
    assert [each.result(5) for each in got] == [(message, lead.generation)] * (nodes - 1)
    return members


def has_joined(lead: Leader, rank: int = 1) -> bool:
    return eventually(lambda: rank in lead._hellos)


def loss_of(one: Leader | Member) -> PeerLoss:
    assert one.peers.lost.wait(5) and one.peers.loss is not None
    return one.peers.loss


def test_a_port_that_another_process_holds_is_named() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LaunchError, match=f"gang port {port} of rank 0") as taken:
            Leader(OWN, port)
    assert (taken.value.code, taken.value.id) == (Exit.UNAVAILABLE, "gang-port")


def test_all_ranks_start_together_and_get_what_was_prepared() -> None:
    outputs = (("/w/models/m", "digest"),)
    with led() as (lead, join):
        lead.announce("download")
        started(lead, join, 3, StartMessage(attempt=7, outputs=outputs, resume="checkpoint-5"))


def test_a_node_alone_starts_at_once_and_opens_no_port() -> None:
    lead = Leader(replace(OWN, nodes=1), port=1)
    lead.start(START, time.monotonic())
    lead.leave(Exit.OK, "")


def test_rank_zero_logs_whom_it_waits_for_even_if_nobody_has_joined(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"), led(nodes=2) as (lead, _), pytest.raises(LaunchError):
        lead.start(START, time.monotonic())
    [line] = [each for each in caplog.messages if each.startswith("gang ")]
    assert line == 'gang awaited missing="rank 1" of=2'


def test_missing_ranks_are_named() -> None:
    with led() as (lead, join):
        join(2)
        assert has_joined(lead, 2)
        with pytest.raises(LaunchError, match="rank 1 did not join, rank 2 joined but") as late:
            lead.start(START, time.monotonic() + 0.2)
        assert late.value.code == Exit.UNAVAILABLE


def test_a_duplicate_rank_is_refused_by_name() -> None:
    with led() as (lead, join):
        join(1)
        assert has_joined(lead)
        with pytest.raises(LaunchError, match=r"rank 1 \(r-node-0-1 on n0\) is a duplicate") as no:
            join(1).await_start_message()
        assert no.value.code == Exit.UNAVAILABLE


def test_a_rank_that_dies_before_the_start_may_come_back() -> None:
    with led() as (lead, join):
        evicted = join(1)
        assert has_joined(lead)
        evicted.leave(Exit.TERMINATED, "evicted")
        assert eventually(lambda: 1 not in lead._hellos)
        started(lead, join)
        assert lead.peers.loss is None


def test_a_user_error_of_a_waiting_rank_ends_the_gang_at_once() -> None:
    with led() as (lead, join):
        waiting = join(1)
        threading.Timer(0.2, waiting.leave, (Exit.CONFIG, "workspace is not shared")).start()
        begin = time.monotonic()
        with pytest.raises(LaunchError, match="workspace is not shared") as end:
            lead.start(START, time.monotonic() + 30)
        assert end.value.code == Exit.PEER
        assert time.monotonic() - begin < 5


def test_a_pod_replaced_after_the_start_ends_the_old_gang() -> None:
    with led() as (lead, join):
        started(lead, join)
        with pytest.raises(LaunchError, match="has already started") as no:
            join(1).await_start_message()
        assert no.value.code == Exit.PEER
        assert "replaced" in loss_of(lead).cause


def test_a_lost_peer_is_known_to_all() -> None:
    with led() as (lead, join):
        first, second = started(lead, join)
        first.leave(Exit.DATA, "row 7 is not JSON")
        error = loss_of(lead).error()
        assert error.code == Exit.PEER
        assert "rank 1 (r-node-0-1 on n0) ended: row 7 is not JSON" in error.cause
        lead.leave(Exit.PEER, error.cause)
        assert "row 7" in loss_of(second).cause


def test_a_terminated_peer_ends_the_others_as_free_as_itself() -> None:
    with led() as (lead, join):
        first, second = started(lead, join)
        first.peers.announce_end(Exit.TERMINATED, "SIGTERM")
        assert loss_of(lead).error().code == Exit.TERMINATED
        lead.leave(Exit.TERMINATED, "rank 1 ended")
        assert loss_of(second).who == "rank 1 (r-node-0-1 on n0)"
        assert loss_of(second).error().code == Exit.TERMINATED


def test_rank_zeros_own_error_is_not_passed_off_as_a_peers() -> None:
    with led() as (lead, join):
        first, second = started(lead, join)
        first.leave(Exit.PEER, "Connection closed by peer")
        assert loss_of(lead)
        lead.leave(Exit.CONFIG, "ValueError: heads")
        assert loss_of(second).who == "rank 0"


def test_a_peer_that_ends_between_ready_and_go_ends_the_gang() -> None:
    with led() as (lead, join):
        first = join(1)

        def follow() -> None:
            first.await_start_message()
            first._connection.send({"ready": "pod"})
            time.sleep(0.2)
            first.leave(Exit.CONFIG, "out of luck")

        threading.Thread(target=follow).start()
        with pytest.raises(LaunchError, match="out of luck"):
            lead.start(START, time.monotonic() + 30)


def test_a_peer_that_vanishes_is_lost() -> None:
    with led() as (lead, join):
        first, _ = started(lead, join)
        first._connection.close()
        assert loss_of(lead)


def test_a_mute_peer_is_lost_after_the_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "SILENCE_LIMIT_SECONDS", 0.3)
    monkeypatch.setattr(peer_monitor, "KEEPALIVE_INTERVAL_SECONDS", 60.0)
    with led() as (lead, join):
        started(lead, join)
        assert "no message for" in loss_of(lead).cause


def test_signs_of_life_keep_a_quiet_gang_together(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leader, member):
        monkeypatch.setattr(module, "SILENCE_LIMIT_SECONDS", 0.6)
    monkeypatch.setattr(peer_monitor, "KEEPALIVE_INTERVAL_SECONDS", 0.1)
    with led() as (lead, join):
        members = started(lead, join)
        assert not lead.peers.lost.wait(1.5)
        assert not any(m.peers.lost.is_set() for m in members)


def test_success_waits_for_the_slowest_rank_and_loses_no_rank() -> None:
    with led() as (lead, join):
        first, second = started(lead, join)
        for one in (first, second):
            threading.Timer(0.5, one.leave, (Exit.OK, "")).start()
        begin = time.monotonic()
        lead.leave(Exit.OK, "")
        assert time.monotonic() - begin > 0.4
        assert lead.peers.loss is None
        assert second.peers.loss is None


def test_rank_zeros_failure_while_it_prepares_reaches_the_waiting() -> None:
    with led() as (lead, join):
        waiting = join(1)
        assert has_joined(lead)
        lead.leave(Exit.AUTH, "401 for hf://o/m")
        with pytest.raises(LaunchError, match="rank 0 ended: 401") as end:
            waiting.await_start_message()
        assert end.value.code == Exit.PEER


@pytest.mark.parametrize(("host", "wait"), [("localhost", 60), ("no-such-host.invalid", 0.1)])
def test_a_rank_that_never_finds_rank_zero_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, host: str, wait: float
) -> None:
    monkeypatch.setattr(member, "OWN_HOST_SECONDS", 0.1)  # no other host can answer there
    port = free_port()
    with pytest.raises(LaunchError, match=f"not found at {host}:{port}") as lost:
        Member(peer(1), host, port, time.monotonic() + wait)
    assert lost.value.code == Exit.UNAVAILABLE


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this host has no IPv6")
def test_rank_zero_is_found_over_ipv6_too() -> None:
    with led(nodes=2) as (lead, _):
        port = lead._handshakes.port if lead._handshakes else 0
        over = Member(peer(1, nodes=2), "::1", port, soon())
        assert has_joined(lead)
        over.leave(Exit.TERMINATED, "test over")


@pytest.mark.parametrize(
    ("newcomer", "code", "named"),
    [
        (peer(1, run="other"), Exit.UNAVAILABLE, "belongs to run 'other'"),
        (peer(1, gang="uid/1"), Exit.UNAVAILABLE, "(JobSet uid/restart uid/1)"),
        (peer(1, nodes=4), Exit.CONFIG, "of 4 nodes"),
        (peer(1, processes=4), Exit.CONFIG, "4 training processes"),
        (peer(3), Exit.CONFIG, "rank 3"),
        (peer(0), Exit.CONFIG, "rank 0"),
        (peer(1, digest="e" * 64), Exit.CONFIG, "eeeeeeeeeeee"),
    ],
)
def test_a_rank_that_differs_is_refused(newcomer: Hello, code: Exit, named: str) -> None:
    no = refusal(OWN, newcomer, {}, generation="")
    assert no is not None and no[0] == code and named in no[1]
    assert refusal(OWN, peer(1), {}, generation="") is None


@given(ranks=st.sets(st.integers(0, 200), min_size=1))
def test_ranks_are_abbreviated_without_loss(ranks: set[int]) -> None:
    text = format_ranks(ranks).removeprefix("ranks ").removeprefix("rank ")
    parsed: set[int] = set()
    for span in text.split(", "):
        low, _, high = span.partition("-")
        parsed |= set(range(int(low), int(high or low) + 1))
    assert parsed == ranks


def test_a_line_too_long_for_a_message_closes_the_connection() -> None:
    one, other = socket.socketpair()
    with one, other:
        threading.Thread(target=one.sendall, args=(b"x" * (1 << 20) + b"\n",), daemon=True).start()
        with pytest.raises(Closed):
            Connection(other, 5).receive()

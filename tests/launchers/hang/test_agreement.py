"""A hang is agreed on over the gang's real connections: all silent, evidence of all, one end."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from launchers.exits import Exit
from launchers.gang.member import Member
from launchers.gang.protocol import Message, end_message
from launchers.hang import agreement as hang_agreement
from launchers.hang import culprit
from launchers.hang.agreement import HangAgreement
from launchers.hang.culprit import Culprit
from launchers.hang.silence import NOTHING_RUNS, Silence
from launchers.hang.worker import Worker
from tests.launchers.gang.test_barrier import led, started
from tests.launchers.waiting import eventually

SILENT = Silence(seconds=61.0, limit=60.0, phase="step")


def worker(rank: int, state: str = "S") -> Worker:
    return Worker(rank=rank, node=rank, boundary=8, phase="step", age=61.0, state=state)


class Node:
    """Messages that one rank's launcher received."""

    def __init__(self, agreement: HangAgreement, rank: int, state: str = "S") -> None:
        self.ended: list[tuple[int, str]] = []
        self.recorded: list[Culprit] = []
        self.agreement, self.gathered = agreement, 0
        self.rank, self.state = rank, state
        agreement.attach(
            self.gather,
            lambda silence, workers, found: self.recorded.append(found),
            lambda node, cause, kind: self.ended.append((node, cause)),
        )

    def gather(self) -> list[Worker]:
        self.gathered += 1
        return [worker(self.rank, self.state)]


@contextmanager
def gang(states: str = "SSS") -> Iterator[tuple[list[Node], list[Member]]]:
    """Start a gang with a process in these states on each node; yield also its members."""
    with led() as (lead, join):
        members = started(lead, join)
        peers = [lead.peers, *(one.peers for one in members)]
        yield [Node(each.hangs, rank, states[rank]) for rank, each in enumerate(peers)], members


def test_all_silent_nodes_end_because_of_the_stopped_rank() -> None:
    with gang("SST") as (nodes, _):
        for node in nodes:
            node.agreement.note(SILENT)
        assert eventually(lambda: all(node.ended for node in nodes))
    causes = {cause for node in nodes for _, cause in node.ended}
    assert [node.ended[0][0] for node in nodes] == [2, 2, 2] and len(causes) == 1
    assert "rank 2 is stopped" in causes.pop()
    assert [found.ranks for found in nodes[0].recorded] == [(2,)] and not nodes[1].recorded


def test_one_node_that_beats_keeps_the_gang_alive() -> None:
    with gang() as (nodes, _):
        heard = nodes[0].agreement._silent
        for node in nodes[:2]:
            node.agreement.note(SILENT)
        nodes[2].agreement.note(None)
        assert eventually(lambda: heard.keys() == {0, 1})  # threads read the peers
        nodes[1].agreement.note(None)  # it beats before the last one is silent
        assert eventually(lambda: heard.keys() == {0})
        nodes[2].agreement.note(SILENT)
        assert eventually(lambda: heard.keys() == {0, 2})
        assert not eventually(lambda: any(node.gathered for node in nodes), 0.2)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather evidence in the caller's thread, so that nothing has to be waited for."""
    monkeypatch.setattr(hang_agreement, "_start", lambda act: act())


def alone(state: str = "S") -> tuple[HangAgreement, Node]:
    agreement = HangAgreement(1, lambda message: None)
    return agreement, Node(agreement, 0, state)


def test_a_heartbeat_while_evidence_is_gathered_ends_nothing(at_once: None) -> None:
    agreement, node = alone()
    inner = node.gather

    def gather() -> list[Worker]:
        agreement.note(None)
        return inner()

    agreement.attach(
        gather, lambda *_: None, lambda culprit, cause, kind: node.ended.append((0, cause))
    )
    agreement.note(SILENT)
    assert node.gathered == 1 and not node.ended
    agreement.note(SILENT)  # and it may hang later
    assert node.gathered == 2


def waited(agreement: HangAgreement) -> Callable[[], bool]:
    """Wait in a thread for the decision; return whether the wait is over."""
    thread = threading.Thread(target=agreement.await_decision, daemon=True)
    thread.start()
    return lambda: not thread.is_alive()


@pytest.mark.parametrize("has_left", [False, True])
def test_a_node_whose_processes_have_failed_waits_for_rank_0s_decision_or_leave(
    has_left: bool,
) -> None:
    member = HangAgreement(2, lambda message: None, rank=1)
    node = Node(member, 1)
    assert eventually(waited(member))  # nobody has asked for evidence
    member.hear(0, {"hang": "gather"})
    is_over = waited(member)
    assert not eventually(is_over, 0.2)
    if has_left:
        member.leave(0)
    else:
        member.hear(0, {"hang": "end", "node": 1, "cause": "rank 1 is stopped", "kind": ""})
    assert eventually(is_over) and bool(node.ended) is not has_left


def test_nobody_waits_longer_once_the_ranks_beat_again() -> None:
    with gang() as (nodes, _):
        held = threading.Event()
        inner = nodes[0].gather

        def gather() -> list[Worker]:
            held.wait(10)
            return inner()

        end = nodes[0].ended.append
        nodes[0].agreement.attach(gather, lambda *_: None, lambda node, why, kind: end((node, why)))
        for node in nodes:
            node.agreement.note(SILENT)
        assert eventually(lambda: all(node.gathered for node in nodes[1:]))
        waits = [waited(node.agreement) for node in nodes]
        assert not any(is_over() for is_over in waits)
        nodes[0].agreement.note(None)
        held.set()
        assert eventually(lambda: all(is_over() for is_over in waits))
    assert not any(node.ended for node in nodes)


def test_a_launcher_that_does_not_answer_is_named_and_rank_0_ends(at_once: None) -> None:
    sent: list[Message] = []
    agreement = HangAgreement(2, sent.append)
    node = Node(agreement, 0)
    agreement.hear(1, {"hang": "silent", "seconds": 61.0, "limit": 60.0, "phase": "step"})
    for _ in range(2):  # node 1 has time
        agreement.note(SILENT)
        assert node.gathered == 1 and not node.ended
    agreement._deadline = 0.0
    agreement.note(SILENT)
    assert node.ended[0][0] == 0 and "launcher of node 1 does not answer" in node.ended[0][1]
    assert [message["hang"] for message in sent] == ["gather", "end"]
    assert len(node.ended) == 1


def test_a_rank_that_has_left_is_no_culprit() -> None:
    with gang("SST") as (nodes, members):
        members[0].leave(Exit.OK, "")

        def ticked() -> bool:  # until its leave has been heard
            for node in (nodes[0], nodes[2]):
                node.agreement.note(SILENT)
            return bool(nodes[0].ended and nodes[2].ended)

        assert eventually(ticked)
    assert nodes[0].ended[0][0] == 2 and "rank 2 is stopped" in nodes[0].ended[0][1]


def test_a_node_decides_by_itself_once_rank_0_has_left() -> None:
    with led(nodes=2) as (lead, join):
        (one,) = started(lead, join, nodes=2)
        node = Node(one.peers.hangs, 1, "T")
        lead.peers.stop()
        lead._broadcast(end_message(Exit.OK, ""))

        def ticked() -> bool:
            node.agreement.note(SILENT)
            return bool(node.ended)

        assert eventually(ticked)
    assert len(node.ended) == 1 and node.ended[0][0] == 1
    assert "rank 1 is stopped" in node.ended[0][1] and node.recorded[0].ranks == (1,)


def test_an_attempt_after_a_hang_may_hang_again(at_once: None) -> None:
    agreement, node = alone("T")
    for _ in range(2):
        agreement.note(SILENT)
        assert len(node.ended) == 1  # it is ending
    second = Node(agreement, 0, "T")
    agreement.note(SILENT)
    assert len(second.ended) == 1


def test_nodes_whose_processes_have_all_ended_are_no_hang(at_once: None) -> None:
    agreement, node = alone()
    agreement.note(NOTHING_RUNS)
    assert node.gathered == 0


def test_a_member_reports_to_rank_0_as_long_as_it_is_silent() -> None:
    sent: list[Message] = []
    note: Callable[[Silence | None], None] = HangAgreement(2, sent.append, rank=1).note
    for silence in (None, SILENT, SILENT, None, None):
        note(silence)
    assert [message["hang"] for message in sent] == ["silent", "silent", "beats"]


def raising(*_: object) -> Any:
    raise ZeroDivisionError("a bug")


def test_evidence_that_cannot_be_gathered_kept_or_judged_still_ends_the_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[tuple[int, str]] = []
    agreement = HangAgreement(1, lambda message: None)
    agreement.attach(raising, raising, lambda node, cause, kind: ended.append((node, cause)))
    monkeypatch.setattr(culprit, "find", raising)
    agreement.note(SILENT)
    assert eventually(lambda: bool(ended))
    assert ended[0][0] == 0 and "ZeroDivisionError" in ended[0][1]

"""The agreement to restart training in place, over the gang's real connections."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest

from launchers.exits import Exit, LaunchError
from launchers.gang import restart_agreement
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Message
from launchers.gang.restart_agreement import Begin, Declined, Ended, RestartAgreement, first_of
from tests.launchers.gang.test_barrier import led, started
from tests.launchers.waiting import eventually

KILLED = Ended(who="rank 1", code=1, cause="killed by SIGKILL", is_cascade=False)
CASCADE = Ended(who="rank 2", code=1, cause="Connection closed by peer", is_cascade=True)
OWN = Ended(who="rank 0", code=1, cause="ended because another rank failed", is_cascade=True)
BEGIN = Begin(attempt=2, resume="checkpoint-5")


def agreeing(
    lead: Leader, members: list[Member], decide: Callable[[Ended], Begin | str]
) -> list[Begin | Declined | None]:
    """Let all ranks agree, the peers first; return their answers by rank."""
    both = zip(members, (KILLED, CASCADE), strict=True)

    def agree(peers: PeerMonitor, ended: Ended) -> Begin | Declined | None:
        return peers.restarts.agree(ended, peers.lost, decide)

    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(agree, member.peers, ended) for member, ended in both]
        assert eventually(lambda: lead.peers.restarts.is_asked)
        own = agree(lead.peers, OWN)
        return [own, *(each.result(5) for each in asked)]


def test_all_ranks_begin_again_with_the_same_attempt_twice() -> None:
    seen: list[Ended] = []
    with led() as (lead, join):
        members = started(lead, join)
        for _ in range(2):
            answers = agreeing(lead, members, lambda first: seen.append(first) or BEGIN)  # type: ignore[func-returns-value]
            assert answers == [BEGIN] * 3
            assert not any(each.is_asked for each in restarts_of(lead, members))
        assert seen == [KILLED, KILLED]


def restarts_of(lead: Leader, members: list[Member]) -> list[RestartAgreement]:
    return [peers.restarts for peers in (lead.peers, *(one.peers for one in members))]


@pytest.mark.parametrize("failing", [0, 1])
def test_all_ranks_end_their_processes_while_those_of_the_failed_rank_still_end(
    failing: int,
) -> None:
    with led() as (lead, join):
        members = started(lead, join)
        every = restarts_of(lead, members)
        for _ in range(2):
            every[failing].is_enabled = True
            every[failing].announce_failure()
            assert eventually(lambda: all(each.is_asked for each in every))
            assert agreeing(lead, members, lambda _: BEGIN) == [BEGIN] * 3
            assert not any(each.is_asked for each in every)


def test_a_rank_without_restarts_in_place_announces_no_failure() -> None:
    sent: list[Message] = []
    agreement = RestartAgreement(2, sent.append, is_leader=False)
    agreement.announce_failure()
    assert sent == []


@pytest.mark.parametrize("is_external", [True, False])
def test_only_a_kill_from_outside_lets_no_rank_wait_for_errors_of_its_own(
    is_external: bool,
) -> None:
    """The next failure is judged anew."""
    with led() as (lead, join):
        members = started(lead, join)
        every = restarts_of(lead, members)
        for external in (is_external, False):
            failed = replace(KILLED, is_external=external)
            with ThreadPoolExecutor() as threads:
                threads.submit(every[1].agree, failed, members[0].peers.lost, lambda _: BEGIN)
                assert eventually(lambda: every[0].is_asked and every[2].is_asked)
                assert [each.settles for each in (every[0], every[2])] == [not external] * 2
                threads.submit(every[2].agree, CASCADE, members[1].peers.lost, lambda _: BEGIN)
                assert every[0].agree(OWN, lead.peers.lost, lambda _: BEGIN) == BEGIN
            assert all(each.settles for each in every)


def test_a_request_right_after_a_decision_is_not_forgotten() -> None:
    """The decision and the next request arrive while the main thread still waits."""
    agreement = restart_agreement.RestartAgreement(2, lambda _: None, is_leader=False)

    def answer() -> None:
        agreement.hear(0, {"restart": "begin", "attempt": 2, "resume": "checkpoint-5"})
        agreement.hear(0, {"restart": "end", "settles": True})

    threading.Timer(0.2, answer).start()
    assert agreement.agree(KILLED, threading.Event(), lambda _: BEGIN) == BEGIN
    assert agreement.is_asked


def test_all_ranks_hear_why_there_is_no_restart_and_who_ended_first() -> None:
    with led() as (lead, join):
        answers = agreeing(lead, started(lead, join), lambda _: "enough restarts")
    assert answers == [Declined(why="enough restarts", first=KILLED)] * 3
    assert answers[0] is not None and isinstance(answers[0], Declined)
    error = answers[0].loss.error()
    assert (error.code, error.cause) == (Exit.PEER, "rank 1 ended: killed by SIGKILL")


def test_a_rank_that_leaves_with_an_error_ends_the_agreement() -> None:
    with led() as (lead, join):
        one, other = started(lead, join)
        threading.Timer(0.3, other.leave, (Exit.CONFIG, "bad layout")).start()
        asks, given = one.peers.restarts.agree, (KILLED, one.peers.lost, lambda _: BEGIN)
        threading.Thread(target=asks, args=given, daemon=True).start()
        assert lead.peers.restarts.agree(OWN, lead.peers.lost, lambda _: BEGIN) is None
        assert lead.peers.loss is not None and lead.peers.loss.code == Exit.CONFIG


@pytest.mark.parametrize("finished", [0, 2])
def test_a_rank_that_has_finished_training_cannot_begin_again(finished: int) -> None:
    with led() as (lead, join):
        one, other = started(lead, join)
        if finished:
            other.leave(Exit.OK, "")
        else:
            lead.peers.restarts.close()
        with ThreadPoolExecutor() as threads:
            asks, lost = one.peers.restarts.agree, one.peers.lost
            asked = threads.submit(asks, KILLED, lost, lambda _: BEGIN)
            if finished:
                lead.peers.restarts.agree(OWN, lead.peers.lost, lambda _: BEGIN)
        answer = asked.result(5)
        assert isinstance(answer, Declined) and answer.first == KILLED
        assert answer.why == f"rank {finished} has finished training"


def test_a_rank_asks_in_vain_once_rank_0_has_left() -> None:
    """Rank 0 has finished and left; nobody is there to decline."""
    agreement = restart_agreement.RestartAgreement(2, lambda _: None, is_leader=False)
    agreement.hear(0, {"left": int(Exit.OK)})
    begun = time.monotonic()
    assert agreement.agree(KILLED, threading.Event(), lambda _: BEGIN) is None
    assert time.monotonic() - begun < 5


def test_a_rank_whose_processes_do_not_end_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart_agreement, "AGREEMENT_SECONDS", 0.3)
    with led() as (lead, join):
        started(lead, join)
        answer = lead.peers.restarts.agree(OWN, lead.peers.lost, lambda _: BEGIN)
    assert isinstance(answer, Declined)
    assert answer.why.startswith("rank 1 has not ended its processes")


def test_what_rank_0_refuses_is_raised_on_rank_0() -> None:
    def refuse(_: Ended) -> Begin:
        raise LaunchError(Exit.NO_PROGRESS, "no step", "", id="no-progress")

    alone = PeerMonitor()
    with pytest.raises(LaunchError, match="no step"):
        alone.restarts.agree(KILLED, alone.lost, refuse)


def test_the_first_end_is_that_with_a_cause_of_its_own() -> None:
    assert first_of([CASCADE, KILLED, OWN]) == KILLED
    assert first_of([CASCADE, OWN]) == CASCADE


def test_the_decision_never_overtakes_the_request_to_end() -> None:
    """Both ranks fail at once, and the thread that hears of rank 1 is slow to send."""
    sent: list[object] = []
    asked = threading.Event()

    def send(message: Message) -> None:
        if message["restart"] == "end":
            asked.set()
            time.sleep(0.3)
        sent.append(message["restart"])

    lead = RestartAgreement(2, send)
    report = {"restart": "ended", **asdict(KILLED)}
    reader = threading.Thread(target=lead.hear, args=(1, report))
    reader.start()
    assert asked.wait(5)
    assert lead.agree(OWN, threading.Event(), lambda _: BEGIN) == BEGIN
    reader.join(5)
    assert sent == ["end", "begin"]

"""The step at which a gang stops, decided by the ranks' answers over real connections."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.exits import Exit
from launchers.gang.protocol import Message, PeerLoss, end_message
from launchers.stop.agreement import Answer, StopAgreement, decide
from launchers.stop.watch import StopOnRequest
from launchers.system.step_board import NOWHERE, Phase, Reading, StepBoard, end_of_save, end_of_step
from tests.launchers.gang.test_barrier import led, started
from tests.launchers.waiting import eventually


def reading(boundary: int, phase: Phase = Phase.STEP, step: float = 1, save: float = 0) -> Reading:
    return Reading(boundary=boundary, phase=phase, step_seconds=step, save_seconds=save)


def test_a_node_answers_with_the_highest_boundary_of_its_processes() -> None:
    answer = Answer.of_processes([reading(6), reading(8), reading(6)])
    assert (answer.boundary, answer.needs_seconds) == (8, 0.0)


@pytest.mark.parametrize("phase", [Phase.START, Phase.REFERENCE, Phase.EVALUATION])
def test_a_node_with_nothing_new_cannot_save(phase: Phase) -> None:
    answer = Answer.of_processes([reading(8), reading(0, phase)])
    assert answer.boundary == 0 and answer.why
    assert decide({0: Answer(boundary=8), 1: answer}, 100)[0] == NOWHERE


def test_only_a_new_save_must_fit_into_the_time() -> None:
    new = Answer.of_processes([reading(8, step=5, save=30)])
    begun = Answer.of_processes([reading(9, Phase.SAVE, step=5, save=30)])
    assert (new.needs_seconds, begun.needs_seconds) == (35, 0)
    assert decide({0: new}, 34)[0] == NOWHERE
    assert decide({0: new}, 36) == (8, "")
    assert decide({0: begun}, 1) == (9, "")


def test_a_batch_of_an_evaluation_and_a_save_must_fit() -> None:
    batch = replace(reading(8, Phase.EVALUATION, step=50, save=30), batch_seconds=4)
    assert Answer.of_processes([batch]).needs_seconds == 34
    assert Answer.of_processes([batch, reading(8, step=50)]).needs_seconds == 84
    assert Answer.of_processes([replace(batch, save_seconds=0)]).needs_seconds == 0


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=6), st.data())
def test_no_process_has_passed_the_agreed_boundary(
    steps: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """The highest next boundary of all is one that each of them still reaches."""
    nexts = [end_of_save(step) if saves else end_of_step(step) for step, saves in steps]
    cut = data.draw(st.integers(0, len(nexts) - 1))
    nodes = [part for part in (nexts[:cut], nexts[cut:]) if part]
    answers = {
        rank: Answer.of_processes([reading(boundary) for boundary in node])
        for rank, node in enumerate(nodes)
    }
    boundary, _ = decide(answers, 100)
    assert boundary in nexts and all(boundary >= each for each in nexts)


def test_a_run_ends_a_step_after_a_save_that_has_begun_without_what_is_exported() -> None:
    sent: list[Message] = []
    agreement = StopAgreement(1, sent.append)
    agreement.attach(lambda: Answer(boundary=end_of_save(7)), lambda _: None)
    agreement.over = lambda needs: "budget"
    agreement.look(0.0)
    assert (agreement.boundary, sent[-1]["boundary"]) == (end_of_step(8), end_of_step(8))


@pytest.mark.parametrize("must_step", [True, False])
def test_a_spent_budget_waits_for_a_step_where_the_checkpoint_cannot_be_exported(
    tmp_path: Path, must_step: bool
) -> None:
    agreement = StopAgreement(1, lambda _: None)
    agreement.over = lambda needs: "budget"
    board = StepBoard.make(tmp_path / "board", 1)
    stop = StopOnRequest(board, agreement, 300)
    stop.must_step = must_step
    assert stop.has_given_up() is not must_step  # nothing is trained yet
    board.write(0, boundary=end_of_step(9), phase=Phase.STEP, step_seconds=2.0)
    assert stop.has_given_up() is not must_step
    assert agreement.boundary == (end_of_step(9) if must_step else NOWHERE)
    assert board.ends


def test_an_end_after_a_common_save_is_no_loss() -> None:
    assert PeerLoss.from_wire(end_message(Exit.PREEMPTED, "saved"), "rank 1") is None
    assert PeerLoss.from_wire(end_message(Exit.TERMINATED, "SIGTERM"), "rank 1") is not None


@pytest.mark.parametrize("asks", [0, 1])
def test_all_ranks_stop_where_the_last_of_them_is(asks: int) -> None:
    with led() as (lead, join):
        agreements = [lead.peers.agreement, *(m.peers.agreement for m in started(lead, join))]
        released: dict[int, int] = {}
        for rank, agreement in enumerate(agreements):
            where = Answer(boundary=10 + 2 * rank)
            agreement.attach(
                lambda where=where: where,  # type: ignore[misc]
                lambda boundary, rank=rank: released.update({rank: boundary}),  # type: ignore[misc]
            )
        agreements[asks].ask(100)
        agreements[asks].ask(100)  # a second signal's request joins the first
        assert eventually(lambda: len(released) == 3)
        assert released == {0: 14, 1: 14, 2: 14}


def test_a_gang_without_training_stops_nowhere() -> None:
    with led(2) as (lead, join):
        [follower] = started(lead, join, nodes=2)
        lead.peers.agreement.attach(lambda: Answer(boundary=4), lambda _: None)
        lead.peers.agreement.ask(100)
        assert eventually(lambda: follower.peers.agreement.boundary != 0)
        assert lead.peers.agreement.boundary == NOWHERE
        assert "rank 1: nothing is trained" in follower.peers.agreement.why


def test_a_rank_that_cannot_save_asks_nobody() -> None:
    sent: list[Message] = []
    agreement = StopAgreement(2, sent.append, is_leader=False)
    agreement.attach(lambda: Answer(boundary=0, why="training has not begun"), lambda _: None)
    agreement.ask(100)
    assert (agreement.boundary, sent) == (NOWHERE, [])


def test_all_ranks_learn_that_a_stop_is_the_end_of_the_run() -> None:
    with led(2) as (lead, join):
        [follower] = started(lead, join, nodes=2)
        own = lead.peers.agreement
        for agreement in (own, follower.peers.agreement):
            agreement.attach(lambda: Answer(boundary=4, needs_seconds=9.0), lambda _: None)
        own.over = lambda needs: "budget" if needs >= 10 else ""
        follower.peers.agreement.look(99.0)  # rank 0 alone decides
        own.look(9.0)
        assert not own.is_asked
        own.look(10.0)
        assert eventually(lambda: follower.peers.agreement.boundary == 4)
        assert (own.boundary, own.ends, follower.peers.agreement.ends) == (4, "budget", "budget")

"""Training processes at their boundaries, with the launcher's part in the same process."""

import threading
import time
from pathlib import Path

import pytest

from launchers.stop.agreement import Answer, decide
from launchers.stop.boundary import Boundary
from launchers.system.step_board import (
    NOWHERE,
    VARIABLE,
    Phase,
    StepBoard,
    end_of_batch,
    end_of_save,
    end_of_step,
    step_of,
)


@pytest.fixture
def board(tmp_path: Path) -> StepBoard:
    return StepBoard.make(tmp_path / "board", 4)


def process(board: StepBoard, local: int = 0) -> Boundary:
    return Boundary({VARIABLE: str(board.path), "LOCAL_RANK": str(local)})


def test_without_a_launcher_nothing_stops() -> None:
    alone = Boundary({})
    alone.begin(0)
    assert not alone.end_step(1, saves=True, is_last=False)
    assert not alone.end_save(1, stops=False)
    assert not alone.end_batch(1)
    assert not alone.end_evaluation(1, saves=False, is_last=False)
    alone.stop(1)


def test_a_process_shows_what_it_does_and_how_long_that_takes(board: StepBoard) -> None:
    one = process(board, 1)
    assert board.read()[1].phase == Phase.START and board.read()[1].boundary == 0
    one.begin(6)
    assert board.read()[1].boundary == end_of_step(7)
    time.sleep(0.02)
    assert not one.end_step(7, saves=True, is_last=False)
    shown = board.read()[1]
    assert (shown.boundary, shown.phase) == (end_of_save(7), Phase.SAVE)
    assert 0.02 <= shown.step_seconds < 1
    one.begin_evaluation(7)
    assert board.read()[1].phase == Phase.EVALUATION
    time.sleep(0.02)
    assert not one.end_batch(7)
    shown = board.read()[1]
    assert (shown.boundary, shown.phase) == (end_of_batch(7, 2), Phase.EVALUATION)
    assert 0.02 <= shown.batch_seconds < 1
    one.end_evaluation(7, saves=True, is_last=False)
    shown = board.read()[1]
    assert (shown.boundary, shown.phase) == (end_of_save(7), Phase.SAVE)
    time.sleep(0.02)
    assert not one.end_save(7, stops=False)
    shown = board.read()[1]
    assert (shown.boundary, shown.phase) == (end_of_step(8), Phase.STEP)
    assert 0.02 <= shown.save_seconds < 1


@pytest.mark.parametrize(
    ("stop_at", "after_step", "after_save"),
    [
        (end_of_step(7), True, True),
        (end_of_save(7), False, True),
        (end_of_step(8), False, False),
        (end_of_batch(7, 1), False, True),  # announced, and left out by the trainer
        (NOWHERE, False, False),
    ],
)
def test_a_step_that_is_saved_has_two_boundaries(
    board: StepBoard, stop_at: int, after_step: bool, after_save: bool
) -> None:
    one = process(board)
    board.request()
    board.stop_at = stop_at
    stops = one.end_step(7, saves=True, is_last=False)
    assert stops is after_step
    assert one.end_save(7, stops=stops) is after_save


@pytest.mark.parametrize(
    ("stop_at", "batches", "at_end"),
    [
        (end_of_step(7), [True, True], True),
        (end_of_batch(7, 2), [False, True], True),
        (end_of_batch(7, 3), [False, False], True),
        (end_of_step(8), [False, False], False),
        (NOWHERE, [False, False], False),
    ],
)
@pytest.mark.parametrize("is_last", [False, True])
def test_each_batch_of_an_evaluation_is_a_boundary(
    board: StepBoard, stop_at: int, batches: list[bool], at_end: bool, is_last: bool
) -> None:
    one = process(board)
    one.begin(6)
    one.end_step(7, saves=False, is_last=is_last, evaluates=True)
    shown = board.read()[0]
    assert (shown.boundary, shown.phase) == (end_of_batch(7, 1), Phase.EVALUATION)
    board.request()
    board.stop_at = stop_at
    assert [one.end_batch(7), one.end_batch(7)] == batches
    assert one.end_evaluation(7, saves=False, is_last=is_last) is at_end


@pytest.mark.parametrize("is_saved", [False, True])
def test_an_evaluation_with_nothing_new_to_save_declines(board: StepBoard, is_saved: bool) -> None:
    """Before the first step of an attempt, or after the step's checkpoint."""
    one = process(board)
    one.begin(6 if is_saved else 7)
    if is_saved:
        one.end_step(7, saves=True, is_last=False)
        one.end_save(7, stops=False)
    one.begin_evaluation(7)
    board.request()
    answer = Answer.of_processes(board.read()[:1])
    assert (answer.boundary, answer.why) == (0, "no step has ended since the last checkpoint")
    assert not one.end_batch(7)  # and does not wait for a number
    board.stop_at = NOWHERE
    assert not one.end_evaluation(7, saves=False, is_last=False)
    assert board.read()[0].boundary == end_of_step(8)


@pytest.mark.parametrize("saves", [False, True])
def test_a_request_right_after_the_look_names_a_boundary_ahead(
    board: StepBoard, monkeypatch: pytest.MonkeyPatch, saves: bool
) -> None:
    answers: list[Answer] = []

    def look_just_before(seen: StepBoard) -> bool:
        board.request()
        answers.append(Answer.of_processes(board.read()[:1]))
        return False

    one = process(board)
    one.begin(6)
    monkeypatch.setattr(StepBoard, "is_requested", property(look_just_before))
    assert not one.end_step(7, saves=saves, is_last=False)
    if saves:
        assert not one.end_save(7, stops=False)
    ahead = [end_of_save(7), end_of_step(8)] if saves else [end_of_step(8)]
    assert [answer.boundary for answer in answers] == ahead


def test_processes_that_race_with_the_request_all_stop_at_one_boundary(tmp_path: Path) -> None:
    """Four processes at different speeds, which evaluate and save; the request comes anytime."""
    for attempt in range(20):
        board = StepBoard.make(tmp_path / f"board-{attempt}", 4)
        stopped: dict[int, int] = {}

        def run(local: int, board: StepBoard = board, stopped: dict[int, int] = stopped) -> None:
            one = process(board, local)
            one.begin(0)
            for step in range(1, 100_000):
                time.sleep(0.0002 * local)
                saves, batches = step % 3 == 0, step % 2 * 3
                stops = one.end_step(step, saves=saves, is_last=False, evaluates=batches > 0)
                for batch in range(0 if stops else batches):
                    time.sleep(0.0002 * local)
                    if one.end_batch(step):
                        stopped[local] = end_of_batch(step, batch + 1)
                        return
                if batches and not stops:
                    stops = one.end_evaluation(step, saves=saves, is_last=False)
                if (saves or stops) and one.end_save(step, stops=stops):
                    stopped[local] = end_of_save(step)
                    return

        threads = [threading.Thread(target=run, args=(local,), daemon=True) for local in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.02 + 0.001 * attempt)
        board.request()
        answer = Answer.of_processes(board.read())
        board.stop_at, _ = decide({0: answer}, 100)
        for thread in threads:
            thread.join(20)
        assert len(stopped) == 4 and len({*stopped.values()}) == 1
        assert step_of(stopped[0]) == step_of(answer.boundary)


@pytest.mark.parametrize("saves", [True, False])
def test_the_last_step_ends_by_itself_and_what_follows_may_take_as_long_as_a_save(
    board: StepBoard, saves: bool
) -> None:
    """The trainer's own end merges, loads the best, evaluates."""
    one = process(board)
    board.request()  # and no boundary is set: the process does not wait for one
    assert not one.end_step(9, saves=saves, is_last=True)
    assert board.read()[0].phase == Phase.SAVE

"""Saves by time: what they cost, what an interruption loses, and that one rank decides."""

import time

import pytest

from launchers.flags.features import SAVE_VARIABLE
from launchers.plan.footprint import SAVE_SHARE
from launchers.stop.boundary import Boundary
from launchers.stop.save_timer import SaveTimer

LIMIT = 900.0


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def timer(answers: list[int] | None = None) -> SaveTimer:
    def agree(number: int) -> int:
        if answers is not None:
            answers.append(number)
        return number

    return SaveTimer({SAVE_VARIABLE: str(LIMIT)}, agree)


@pytest.mark.parametrize("step_seconds", [0.3, 26.0, 200.0])
@pytest.mark.parametrize(("hold", "write"), [(0.0, 0.0), (5.0, 0.0), (3.0, 300.0), (30.0, 0.0)])
def test_a_save_is_cheap_and_an_interruption_loses_little(
    clock: Clock, step_seconds: float, hold: float, write: float
) -> None:
    looks: list[int] = []
    made = timer(looks)
    made.begin(40)
    step, ends = 40, [clock.now]
    while len(ends) < 4:
        clock.now += step_seconds
        step += 1
        if made.is_due(step, hold=hold, write=write):
            clock.now += hold
            made.begin(step)
            ends.append(clock.now)
    between = ends[-1] - ends[-2]
    assert hold / between <= SAVE_SHARE * 1.0001
    lost = between + hold + write  # since the state of the older one was copied
    assert lost <= LIMIT or hold / (between - step_seconds) >= SAVE_SHARE  # both do not fit
    assert between >= LIMIT / 4  # and not more often than needed
    assert len(looks) <= 3 * 17


def test_steps_that_become_twice_as_slow_delay_a_save_by_one_step(clock: Clock) -> None:
    made = timer()
    made.begin(0)
    step, begin = 1, clock.now
    clock.now += 1.0
    while not made.is_due(step, hold=0.0):
        step += 1
        clock.now += 1.0 if step < 100 else 2.0
    assert clock.now - begin <= LIMIT + 2


def test_rank_0_decides_when(clock: Clock) -> None:
    follower = SaveTimer({SAVE_VARIABLE: "1"}, lambda number: 7)
    clock.now += 100
    assert [step for step in range(1, 20) if follower.is_due(step, hold=0.0)] == []
    follower = SaveTimer({SAVE_VARIABLE: "1000"}, lambda number: 0)
    assert follower.is_due(1, hold=0.0)


def test_without_a_limit_nobody_looks(clock: Clock) -> None:
    def never(number: int) -> int:
        raise AssertionError(number)

    alone = SaveTimer({}, never)
    clock.now += 1e6
    assert not alone.is_due(1, hold=0.0)


def test_a_save_for_another_reason_starts_the_time_anew(clock: Clock) -> None:
    one = Boundary({SAVE_VARIABLE: str(LIMIT)})
    one.begin(0)
    clock.now += LIMIT
    assert one.is_save_due(1)
    one.end_step(1, saves=True, is_last=False)
    clock.now += 2
    one.end_save(1, stops=False)
    clock.now += 10
    assert not one.is_save_due(2)
    clock.now += LIMIT
    assert one.is_save_due(2000)

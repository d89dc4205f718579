"""Silence of a node's processes: the limit of each phase, and the processes that count."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.hang import silence
from launchers.hang.settings import FLOORS
from launchers.hang.silence import Silence, StepTimes, judge, late_writes, limit_of
from launchers.system.step_board import Phase, Reading, end_of_batch, end_of_step

TRAINING = Reading(boundary=8, phase=Phase.STEP, step_seconds=2, save_seconds=0, beat=1000, pid=5)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("loads", [False, True])
def test_each_phase_has_a_floor(phase: Phase, loads: bool) -> None:
    reading = replace(TRAINING, phase=phase, loads=loads)
    assert limit_of(reading, 2, FLOORS) == FLOORS[silence.phase_of(reading)]
    assert limit_of(TRAINING, 100, FLOORS) == silence.STEPS * 100
    first = replace(reading, step_seconds=0)
    if phase == Phase.START:
        assert limit_of(first, 0, FLOORS) == FLOORS["start"]
    elif phase in (Phase.STEP, Phase.EVALUATION, Phase.REFERENCE):  # kernels are compiled
        assert limit_of(first, 0, FLOORS) == FLOORS["first_step"] < FLOORS["start"]
        lower = {**FLOORS, "first_step": 1}
        assert limit_of(first, 0, lower) == lower[silence.phase_of(first)]


def test_a_node_is_silent_only_when_all_its_processes_are() -> None:
    def judged(now: float, *readings: Reading, began: float = 0) -> Silence | None:
        step = readings[0].step_seconds
        return judge([*readings], now=now, began=began, step=step, floors=FLOORS)

    early, late, later = (replace(TRAINING, beat=beat) for beat in (900, 1000, 1002))
    assert judged(1301, late, later) is None
    found = judged(1301, early, late)
    assert found is not None and (found.seconds, found.limit, found.phase) == (301, 300, "step")
    found = judged(1001 + FLOORS["first_step"], replace(TRAINING, step_seconds=0))
    assert found is not None and found.phase == "first_step"
    # a process without a heartbeat counts from its start
    new = Reading(boundary=0, phase=Phase.START, step_seconds=0, save_seconds=0)
    assert judged(500 + FLOORS["start"], new, began=500) is None
    assert judged(501 + FLOORS["start"], new, began=500) is not None


def test_processes_that_have_ended_do_not_count() -> None:
    ended = replace(TRAINING, pid=6, beat=2000)
    known = partial(judge, began=0, step=2, floors=FLOORS, has_ended=lambda pid: pid == 6)
    found = known([TRAINING, ended], now=2001)
    assert found is not None and found.seconds == 1001
    assert known([ended], now=9999) is silence.NOTHING_RUNS


def test_an_end_is_early_without_the_end_of_training_or_an_agreed_stop() -> None:
    trained, stopped = replace(TRAINING, is_trained=True), replace(TRAINING, phase=Phase.STOPPED)
    unknown = replace(TRAINING, beat=0)
    assert silence.early_ends([trained, TRAINING, stopped, unknown, TRAINING]) == [1, 4]


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=60))
def test_the_median_is_of_the_last_steps(seconds: list[float]) -> None:
    times = StepTimes()
    for number, each in enumerate(seconds):
        reading = replace(TRAINING, boundary=end_of_step(number + 1), step_seconds=each)
        times.note([reading])
        times.note([reading])  # read twice in one step
        times.note([replace(reading, boundary=end_of_batch(number + 1, 1))])  # and evaluated
    last = sorted(seconds[-31:])
    middle = len(last) // 2
    expected = last[middle] if len(last) % 2 else (last[middle - 1] + last[middle]) / 2
    assert times.median == pytest.approx(expected)


WRITER = replace(TRAINING, beat=4000, write_beat=1000)


def test_a_write_is_late_after_the_floor_of_saves_or_five_of_the_last() -> None:
    def late(now: float, writer: Reading = WRITER) -> tuple[Silence, list[int]] | None:
        return late_writes([TRAINING, writer], now=now, floors=FLOORS)

    assert late(1000 + FLOORS["save"]) is None
    found = late(1001 + FLOORS["save"])
    assert found is not None and found[1] == [1] and found[0].phase == "write"
    slow = replace(WRITER, save_seconds=400)
    assert late(1001 + FLOORS["save"], slow) is None
    assert late(1001 + silence.STEPS * 400, slow) is not None
    assert late(9999, replace(WRITER, write_beat=0)) is None
    assert late(9999) is not None
    assert late_writes([WRITER], now=9999, floors=FLOORS, has_ended=lambda pid: True) is None


def test_a_save_that_stops_training_may_take_five_times_the_longest_so_far() -> None:
    saving = replace(TRAINING, phase=Phase.SAVE, save_seconds=2400.0)

    def judged(waited: int) -> Silence | None:
        return judge([saving] * 8, now=1000 + waited, began=0, step=20, floors=FLOORS)

    assert judged(1801) is None and judged(12_000) is None
    late = judged(12_001)
    assert late is not None and (late.limit, late.phase) == (12_000, "save")
    steps = StepTimes(longest_save=600.0)
    for seconds in (0.0, 2400.0, 1.0):
        steps.note([replace(saving, save_seconds=seconds)])
    assert steps.longest_save == 2400
    assert limit_of(replace(saving, save_seconds=1), 20, silence.with_saves(FLOORS, 2400)) == 12_000


def test_a_flush_is_a_sign_of_life_in_a_save_and_not_in_a_step() -> None:
    saving = replace(TRAINING, phase=Phase.SAVE, beat=1000, write_beat=5000)
    late = 5001 + FLOORS["save"]
    judged = partial(judge, began=0, step=1, floors=FLOORS)
    assert judged([saving], now=5000) is None
    found = judged([saving], now=late)
    assert found is not None and found.seconds == late - 5000
    assert judged([replace(saving, phase=Phase.STEP)], now=5000) is not None

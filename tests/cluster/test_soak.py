"""Figures of `make soak`, and the order of its faults."""

import random
from dataclasses import replace

import pytest

from launchers.metrics.rows import Row
from tests.e2e.soak import inject, judge
from tests.e2e.soak.judge import Event
from tests.e2e.soak.target import Process, trainer_of


def row(step: int, time: float, attempt: int = 1, loss: float | None = None) -> Row:
    values = {"loss": float(step) if loss is None else loss}
    return Row(step=step, total=4, attempt=attempt, time=time, seconds=1.0, values=values)


UNDISTURBED = [row(step, float(step)) for step in (1, 2, 3, 4)]
DISTURBED = [row(1, 1), row(2, 2), row(2, 12, attempt=2), row(3, 13, 2), row(4, 14, 2)]


def test_all_losses_of_all_attempts_are_compared() -> None:
    assert judge.differences(UNDISTURBED, DISTURBED) == []
    wrong = [*DISTURBED[:1], replace(DISTURBED[1], values={"loss": 2.5}), *DISTURBED[2:]]
    assert len(judge.differences(UNDISTURBED, wrong)) == 1
    assert len(judge.differences(UNDISTURBED, DISTURBED[:-1])) == 1


def test_each_step_counts_once_in_the_effective_time() -> None:
    assert judge.effective(UNDISTURBED) == pytest.approx(1.0)
    assert judge.effective(DISTURBED) == pytest.approx(4 / 14)
    assert judge.effective(DISTURBED, suspended_seconds=6.0) == pytest.approx(4 / 8)


def test_a_fault_costs_the_time_to_the_next_new_step() -> None:
    seen = judge.recovery(DISTURBED, Event(name="kill", time=2.5), float("inf"))
    assert seen == {"fault": "kill", "next_step_s": 10.5, "steps_again": 1, "attempts": [2]}
    never = judge.recovery(DISTURBED[:2], Event(name="kill", time=2.5), float("inf"))
    assert never["next_step_s"] is None


def test_a_step_that_ends_while_a_pod_is_deleted_is_no_recovery() -> None:
    rows = [row(1, 1), row(2, 2), row(3, 3), row(3, 12, 2), row(4, 13, 2), row(5, 14, 2)]
    seen = judge.recovery(rows, Event(name="delete", time=2.5), until=100)
    assert (seen["next_step_s"], seen["attempts"]) == (10.5, [1, 2])


def test_a_recovery_after_the_next_fault_counts_for_both() -> None:
    rows = [row(1, 1), row(2, 3), row(2, 102, 2), row(3, 103, 2)]
    seen = judge.recovery(rows, Event(name="freeze", time=2.5), until=90)
    assert (seen["next_step_s"], seen["steps_again"]) == (100.5, 0)
    assert judge.recovery(rows, Event(name="kill", time=90), until=200)["next_step_s"] == 13.0


def test_a_fault_that_training_outlives_costs_no_later_attempt() -> None:
    rows = [row(1, 1), row(2, 20), row(3, 40), row(3, 80, 2), row(4, 81, 2)]
    seen = judge.recovery(rows, Event(name="API server away", time=19), until=50)
    assert (seen["next_step_s"], seen["attempts"]) == (1.0, [1])


def test_torchrun_is_no_training_process() -> None:
    torchrun = Process(pid=7, argv=("python", "-m", "torch.distributed.run", "/s/rlhf.py"))
    worker = Process(pid=8, argv=("python", "-u", "/s/rlhf.py"))
    assert trainer_of([torchrun, worker]) == 8
    assert trainer_of([torchrun]) is None


def test_every_fault_comes_before_one_comes_again() -> None:
    names = [*inject.EACH, *inject.ALL]
    drawn = inject.order(random.Random(1), len(names) + 2)
    assert sorted(drawn[: len(names)]) == sorted(names)
    assert drawn == inject.order(random.Random(1), len(names) + 2)


def test_the_figures_of_all_sides_include_the_undisturbed_one() -> None:
    events = {"disturbed": [Event(name="kill", time=2.5)]}
    sides = {"undisturbed": UNDISTURBED, "disturbed": DISTURBED}
    found = judge.summary(sides, "undisturbed", events, {})
    assert found["undisturbed"]["faults"] == []
    assert [each["fault"] for each in found["disturbed"]["faults"]] == ["kill"]

"""Evaluations on held-out rows in ms-swift's Megatron trainer, on CPU."""

from types import SimpleNamespace

import pytest

from launchers.evaluation.rounds import HeldOut, in_parts, microbatches
from launchers.exits import Exit, LaunchError
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_training


@needs_training
def test_ms_swifts_trainer_evaluates_each_held_out_pair_once() -> None:
    assert ranks_on_cpu.held("tests.launchers.evaluation.evaluation_edge") == 12


def test_an_evaluation_has_whole_rounds_of_the_schedule() -> None:
    assert microbatches(51, micro=2, replicas=8) == 3
    assert microbatches(51, micro=1, replicas=8, most=4) == 4
    assert microbatches(51, micro=1, replicas=8, multiple=4) == 4
    with pytest.raises(LaunchError) as refusal:
        microbatches(31, micro=1, replicas=8, multiple=4)
    assert (refusal.value.code, refusal.value.id) == (Exit.DATA, "held-out-too-few")


@pytest.mark.parametrize(
    ("size", "order"),
    [(2, ["2 of a", "part", "2 of a", "part", "1 of a"]), (5, ["5 of a"]), (9, ["5 of a"])],
)
def test_an_evaluation_in_parts_has_the_numbers_of_all_microbatches(
    size: int, order: list[str]
) -> None:
    rows, seen = iter(range(5)), []

    def schedule(*, num_microbatches: int, model: str) -> list[int]:
        seen.append(f"{num_microbatches} of {model}")
        return [next(rows) for _ in range(num_microbatches)]

    stop = SimpleNamespace(end_part=lambda: seen.append("part"))
    run = in_parts(schedule, size, [object(), stop])
    assert run(num_microbatches=5, model="a") == [0, 1, 2, 3, 4]
    assert seen == order


def test_every_evaluation_begins_with_the_first_row() -> None:
    held_out = HeldOut([1, 2, 3])
    for _ in range(2):
        held_out.restart()
        assert [next(held_out), next(held_out)] == [1, 2]
    held_out.stop()
    assert list(held_out) == []

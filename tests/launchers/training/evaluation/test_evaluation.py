"""Evaluations on held-out rows in ms-swift's Megatron trainer, on CPU."""

from __future__ import annotations

import pytest

from launchers.exits import Exit, LaunchError
from launchers.training.evaluation.rounds import HeldOut, microbatches
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_training

SHOWN = (
    "upstream: two evaluations of one model differ",
    "a run is evaluated before its first step",
    "two evaluations of one model are equal",
    "numbers are means over the pairs of all replicas",
    "the training's random state is as without evaluation",
    "another policy has another loss",
    "equal pair weights have the same means",
    "fewer held-out packs than replicas are refused",
    "eval_iters 0 evaluates nothing",
    "eval_iters limits the rows",
    "a resumed run knows the best checkpoint",
)


@needs_training
def test_ms_swifts_trainer_evaluates_each_held_out_pair_once() -> None:
    said = ranks_on_cpu.said("tests.launchers.training.evaluation.evaluation_edge")
    assert [line for line in SHOWN if said.count(line) != 2] == []


def test_an_evaluation_has_whole_rounds_of_the_schedule() -> None:
    assert microbatches(51, micro=2, replicas=8) == 3
    assert microbatches(51, micro=1, replicas=8, most=4) == 4
    assert microbatches(51, micro=1, replicas=8, multiple=4) == 4
    with pytest.raises(LaunchError) as refusal:
        microbatches(31, micro=1, replicas=8, multiple=4)
    assert (refusal.value.code, refusal.value.id) == (Exit.DATA, "held-out-too-few")


def test_every_evaluation_begins_with_the_first_row() -> None:
    held_out = HeldOut([1, 2, 3])
    for _ in range(2):
        held_out.restart()
        assert [next(held_out), next(held_out)] == [1, 2]
    held_out.stop()
    assert list(held_out) == []

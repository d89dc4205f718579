"""Number of steps of a dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launchers.config.recipe import Recipe, parse
from launchers.plan import run_length
from launchers.plan.run_length import PACKED, Data
from launchers.plan.training_job import parse as parse_training


def recipe(**args: Any) -> Recipe:
    fields = {"backend": "megatron", "task": "rlhf", "model": "file:///m", "dataset": ["file:///d"]}
    return parse(fields | {"args": {"max_length": 8192, "global_batch_size": 128} | args})


def steps(data: Data | None, **args: Any) -> int | None:
    made = recipe(**args)
    found = run_length.of(made, parse_training(made, nodes=1, gpus_per_node=1), data)
    return None if found is None else found.steps


PAIRS = Data(pairs=40_000, tokens=2048, source="test")


def test_without_packing_a_step_takes_as_many_pairs_as_its_batch() -> None:
    assert steps(PAIRS, num_train_epochs=1) == 40_000 // 128
    assert steps(PAIRS, num_train_epochs=2) == 80_000 // 128


def test_with_packing_as_many_pairs_as_fill_the_packs() -> None:
    pairs = 128 * PACKED * 8192 / 2048
    assert steps(PAIRS, num_train_epochs=1, packing=True) == int(40_000 / pairs)


def test_a_pair_longer_than_a_pack_has_one_of_its_own() -> None:
    long = Data(pairs=1280, tokens=16_000, source="test")
    assert steps(long, num_train_epochs=1, packing=True) == 10


def test_held_out_rows_are_not_trained() -> None:
    assert steps(PAIRS, num_train_epochs=1, split_dataset_ratio=0.5) == 20_000 // 128


def test_epochs_win_over_train_iters_as_in_ms_swift() -> None:
    assert steps(PAIRS, num_train_epochs=1, train_iters=7) == 40_000 // 128
    assert steps(None, train_iters=7) == 7


@pytest.mark.parametrize("args", [{}, {"num_train_epochs": 1}])
def test_the_length_is_unknown_without_data(args: dict[str, Any]) -> None:
    assert steps(None, **args) is None


def test_a_microbatch_is_a_pack_or_its_pairs() -> None:
    made = recipe(micro_batch_size=2)
    plain = parse_training(made, nodes=1, gpus_per_node=1)
    assert run_length.microbatch_tokens(plain, PAIRS) == 2 * 2048
    assert run_length.microbatch_tokens(plain, None) == 0
    packed = replace(plain, packing=True)
    assert run_length.microbatch_tokens(packed, PAIRS) == 2 * PACKED * 8192
    assert (
        run_length.microbatch_tokens(replace(packed, packing_length=4096), None)
        == 2 * PACKED * 4096
    )


def test_attention_sees_one_text_and_never_more_than_the_limit() -> None:
    plain = parse_training(recipe(), nodes=1, gpus_per_node=1)
    assert run_length.s_eff(plain, PAIRS) == run_length.SPREAD * 1024
    assert run_length.s_eff(plain, Data(pairs=1, tokens=90_000, source="test")) == 8192
    assert run_length.s_eff(replace(plain, pairs=False), PAIRS) == run_length.SPREAD * 2048

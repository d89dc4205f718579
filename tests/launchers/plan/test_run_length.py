"""Number of steps of a dataset."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from launchers.config.recipe import Recipe, parse
from launchers.plan import run_length
from launchers.plan.run_length import PACKED, Data, Duration
from launchers.plan.training_job import parse as parse_training
from tests.launchers.recipes import FIELDS, MODEL_CONFIG, plain


def recipe(**args: Any) -> Recipe:
    return plain(**{"max_length": 8192, "global_batch_size": 128} | args)


def steps(data: Data | None, **args: Any) -> int | None:
    made = recipe(**args)
    training = parse_training(made, nodes=1, gpus_per_node=1)
    found = run_length.predict_run_length(made, training, data)
    return None if found is None else found.steps


PAIRS = Data(pairs=40_000, tokens=2048, source="test")
ONCE = Data(pairs=40_000, tokens=2048, again=512, source="test")
LONG = Data(pairs=1280, tokens=16_000, source="test")
IN_PACKS = {"num_train_epochs": 1, "packing": True}


@pytest.mark.parametrize(
    ("data", "args", "expected"),
    [
        (PAIRS, {"num_train_epochs": 1}, 40_000 // 128),
        (PAIRS, {"num_train_epochs": 2}, 80_000 // 128),
        (PAIRS, IN_PACKS, int(40_000 / (128 * PACKED * 8192 / 2048))),
        (ONCE, IN_PACKS, int(40_000 / (128 * PACKED * 8192 / 1536))),  # of a prompt taken once
        (LONG, IN_PACKS, 10),  # a pair longer than a pack has one of its own
        (PAIRS, {"num_train_epochs": 1, "split_dataset_ratio": 0.5}, 20_000 // 128),
        (PAIRS, {"num_train_epochs": 1, "train_iters": 7}, 40_000 // 128),  # as in ms-swift
        (None, {"train_iters": 7}, 7),
        (None, {}, None),
        (None, {"num_train_epochs": 1}, None),
    ],
)
def test_steps_of_a_dataset(data: Data | None, args: dict[str, Any], expected: int | None) -> None:
    assert steps(data, **args) == expected


def evaluations(
    pairs: Data = PAIRS, world: int = 8, **args: Any
) -> tuple[run_length.Evaluations | None, float]:
    """Return the evaluations of 100 steps that take 10 s without their optimizer, and a pass."""
    made = recipe(packing=True, **args)
    training = parse_training(made, nodes=1, gpus_per_node=world)
    speed = SimpleNamespace(step_seconds=12.0, optimizer_seconds=2.0)
    found = run_length.evaluations(made, MODEL_CONFIG, training, speed, pairs, 100)  # type: ignore[arg-type]
    return found, 10.0 / 4 / training.microbatches


def test_an_evaluation_is_two_forward_passes_of_whole_rounds() -> None:
    found, of_round = evaluations(split_dataset_ratio=0.01, eval_steps=30)
    assert found is not None
    per_round = 8 * PACKED * 8192 / 2048
    assert (found.held_out, found.evaluated) == (400, int(12 * per_round))
    assert found.seconds == pytest.approx(2 * 12 * of_round)
    assert found.count == 1 + 4  # after steps 0, 30, 60, 90 and 100
    share = found.share(Duration(steps=100, hours=1.0, low=1.0, high=1.0, gpu_hours=8.0))
    assert share == pytest.approx(5 * found.seconds / (3600 + 5 * found.seconds))


def test_eval_iters_bounds_an_evaluation_and_a_precomputed_reference_halves_it() -> None:
    found, of_round = evaluations(split_dataset_ratio=0.5, eval_iters=1)
    assert found is not None and found.seconds == pytest.approx(2 * 16 * of_round)
    assert found.count == 2  # save_steps is 500
    made = parse({**FIELDS, "reference": "precomputed", "args": {"max_length": 8192}})
    assert not parse_training(made, nodes=1, gpus_per_node=8).compares


def test_a_run_without_held_out_rows_has_no_evaluation() -> None:
    assert evaluations()[0] is None
    assert evaluations(split_dataset_ratio=0.01, eval_iters=0)[0] is None
    with pytest.raises(ValueError, match="4 held-out rows are fewer than the 32 of a round"):
        evaluations(Data(pairs=400, tokens=2048, source="test"), split_dataset_ratio=0.01)


def test_a_microbatch_is_a_pack_or_its_pairs() -> None:
    made = recipe(micro_batch_size=2)
    plain = parse_training(made, nodes=1, gpus_per_node=1)
    assert run_length.microbatch_tokens(plain, PAIRS) == 2 * 2048
    assert run_length.microbatch_tokens(plain, None) == 0
    packed = replace(plain, packing=True)
    assert run_length.microbatch_tokens(packed, PAIRS) == 2 * PACKED * 8192
    short = replace(packed, packing_length=4096)
    assert run_length.microbatch_tokens(short, None) == 2 * PACKED * 4096


def test_attention_sees_one_text_and_never_more_than_the_limit() -> None:
    plain = parse_training(recipe(), nodes=1, gpus_per_node=1)
    spread = run_length.LENGTH_SPREAD_RATIO
    assert run_length.s_eff(plain, PAIRS) == spread * 1024
    assert run_length.s_eff(plain, Data(pairs=1, tokens=90_000, source="test")) == 8192
    assert run_length.s_eff(replace(plain, pairs=False), PAIRS) == spread * 2048

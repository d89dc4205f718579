"""No run that our rules accept is refused by ms-swift or megatron-core themselves, and the reverse.

``CASES`` is the number of runs, ``CASES_SEED`` where they begin: ``make differential CASES=10000``.
"""

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from tests.differential.asked import Oracle
from tests.differential.layouts import Run, known, runs
from tests.differential.stricter import STRICTER, reason
from tests.differential.verdict import judge
from tests.generated import drawn, parts

COUNT = int(os.environ.get("CASES", "1000"))
FIRST = int(os.environ.get("CASES_SEED", "0"))
QWEN = next(c for c in known() if c["num_hidden_layers"] == 48 and "num_experts" in c)


@pytest.mark.parametrize("part", parts(COUNT))
def test_both_sides_refuse_the_same_runs(part: int, oracle: Oracle) -> None:
    seen: Counter[str] = Counter()

    @drawn(part, FIRST, COUNT)
    @given(run=runs())
    def compare(run: Run) -> None:
        verdict = judge(run, oracle)
        seen["refused" if verdict.ours else "accepted"] += 1
        if verdict.theirs:
            assert verdict.ours, f"we accept what they refuse: {verdict.theirs}"
        unexplained = [message for message in verdict.ours if not reason(message)]
        assert verdict.theirs or not unexplained, "we refuse what they accept"

    compare()
    # Runs that all pass, or that all fail, would show nothing.
    assert min(seen["refused"], seen["accepted"]) > seen.total() / 5, seen


RIGHT: dict[str, Any] = {
    "tensor_model_parallel_size": 4,
    "pipeline_model_parallel_size": 2,
    "expert_model_parallel_size": 8,
    "sequence_parallel": True,
    "global_batch_size": 128,
    "max_length": 8192,
    "num_train_epochs": 1,
}


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, ""),
        ({"tensor_model_parallel_size": 3}, "not divisible by 6"),
        ({"expert_model_parallel_size": 3}, "expert_tensor_model_pipeline_parallel size"),
        ({"global_batch_size": 127}, "global batch size (127) is not divisible"),
        ({"sequence_parallel": False}, "without also enabling sequence parallelism"),
        ({"virtual_pipeline_model_parallel_size": 5}, "divisible by vp_size 5"),
        ({"virtual_pipeline_model_parallel_size": 3, "global_batch_size": 2}, "contiguous micro"),
        ({"recompute_granularity": "full"}, 'recompute_method must be "block" or "uniform"'),
        ({"save_total_limit": 1}, "save_total_limit must be greater"),
        ({"exp_avg_dtype": "bf16"}, "only be fp32 when not using precision-aware"),
        ({"decoder_first_pipeline_num_layers": 47}, ""),
    ],
)
def test_their_own_checks_are_reached(
    change: dict[str, Any], expected: str, oracle: Oracle
) -> None:
    run = Run(config=QWEN, nodes=2, gpus=8, args={**RIGHT, **change})
    verdict = judge(run, oracle)
    assert (expected in verdict.theirs) if expected else verdict.theirs == ""
    assert bool(verdict.ours) == bool(expected)


def test_every_reason_to_be_stricter_is_a_sentence() -> None:
    assert all(len(why) > 40 for why in STRICTER.values())
    assert reason("recipe.args.a: b") == ""

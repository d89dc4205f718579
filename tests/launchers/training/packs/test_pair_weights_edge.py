"""A step of packed DPO has the gradients of its pairs without packing; two ranks on CPU."""

import pytest

from tests.launchers import warm
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import NEXT, STACK, needs_oracle, needs_training


@needs_oracle
@pytest.mark.parametrize("reference", ["online", "precomputed"])
def test_equal_weights_agree_with_unpacked_pairs(reference: str) -> None:
    assert ranks_on_cpu.held("tests.launchers.training.packs.pair_weights_edge", reference) == 11


@needs_training
def test_equal_weights_agree_with_unpacked_on_transformers() -> None:
    said = warm.printed("-m", "tests.launchers.training.packs.pair_weights_hf_edge").splitlines()
    scale = 1.0 if STACK is NEXT else 0.6
    assert f"upstream's scale of a step of fewer batches {scale}" in said
    assert said[-1] == "10 hold"

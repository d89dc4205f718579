"""A step of packed DPO has the gradients of its pairs without packing; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers import warm
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import (
    NEXT,
    STACK,
    needs_oracle,
    needs_training,
)

SHOWN = (
    "packs of a step differ in pairs",
    "the sampler knows the pairs of a step 16",
    *(
        f"alpha {alpha}: {what}"
        for alpha in (0.0, 0.5)
        for what in (
            "gradients of unpacked pairs",
            "by pack they differ",
            "metrics of unpacked pairs",
        )
    ),
    "the auxiliary loss keeps its weight",
    "refused pair-weights-packing",
    "refused pair-weights-count",
)


@needs_oracle
@pytest.mark.timeout(600)
@pytest.mark.parametrize("reference", ["online", "precomputed"])
def test_equal_weights_agree_with_unpacked_pairs(reference: str) -> None:
    said = ranks_on_cpu.said("tests.launchers.training.packs.pair_weights_edge", reference)
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []


ON_TRANSFORMERS = (
    "by pack they differ",
    f"upstream's scale of a step of fewer batches {1.0 if STACK is NEXT else 0.6}",
    *(
        f"window {window} alpha {alpha} accepts {accepts}: as unpacked"
        for window in (3, 5)
        for alpha in (None, 0.5)
        for accepts in (True, False)
    ),
    "the auxiliary loss keeps its weight",
)


@needs_training
@pytest.mark.timeout(600)
def test_equal_weights_agree_with_unpacked_on_transformers() -> None:
    said = warm.printed("-m", "tests.launchers.training.packs.pair_weights_hf_edge").splitlines()
    found = [what for what in ON_TRANSFORMERS if not any(line.startswith(what) for line in said)]
    assert found == []

"""Equal weights, filler mask and evaluation where model or packs are split; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "packs have filler",
    "a stage has its layers alone",
    "gradients are those of two replicas but for",
    "metrics: those of two replicas, on the last stage",
    "evaluated: those of two replicas, on the last stage",
    "another number of pairs is refused",
)


@needs_oracle
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("split", "reference"),
    # a precomputed reference is refused with context parallelism (``precomputed-parallelism``)
    [("pipeline", "online"), ("pipeline", "precomputed"), ("context", "online")],
)
def test_a_step_that_is_split_agrees_with_two_replicas(split: str, reference: str) -> None:
    said = ranks_on_cpu.said("tests.launchers.training.packs.split_edge", split, reference)
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []

"""Equal weights, filler mask and evaluation where model or packs are split; two ranks on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.parametrize(
    ("split", "reference"),
    # a precomputed reference is refused with context parallelism (``precomputed-parallelism``)
    [("pipeline", "online"), ("pipeline", "precomputed"), ("context", "online")],
)
def test_a_step_that_is_split_agrees_with_two_replicas(split: str, reference: str) -> None:
    assert ranks_on_cpu.held("tests.launchers.training.packs.split_edge", split, reference) == 6

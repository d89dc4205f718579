"""Sums of the experts' outputs of four ranks are equal on each rank; on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.timeout(180)
def test_no_rank_adds_up_otherwise() -> None:
    assert ranks_on_cpu.held("tests.launchers.training.experts.rank_order_edge", ranks=4) == 4

"""Sums of the experts' outputs of four ranks are equal on each rank; on CPU."""

from __future__ import annotations

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "the same wherever a pack is held",
    "a ring's is not",
    "rounded once",
    "gradients are those of the rows",
)


@needs_oracle
@pytest.mark.timeout(180)
def test_no_rank_adds_up_otherwise() -> None:
    said = ranks_on_cpu.said("tests.launchers.training.experts.rank_order_edge", ranks=4)
    assert [line for line in said if line] == [f"{what}: True" for what in SHOWN]

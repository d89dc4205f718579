"""The overlap's schedule gives the losses and gradients of the plain one; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "without the switch nothing is planned",
    "losses and gradients are equal bit by bit",
    "each microbatch was planned",
    "the same while gradients are added up",
    "evaluation plans nothing",
)
SWITCH = "recipe.args.megatron_extra_kwargs.overlap_moe_expert_parallel_comm"


@needs_oracle
@pytest.mark.timeout(180)
def test_the_schedule_beside_the_plain_one() -> None:
    said = ranks_on_cpu.said("tests.launchers.overlap_edge")
    assert [line for line in SHOWN if line not in said] == []
    refused = [line for line in said if line.startswith(f"refused: {SWITCH}: ")]
    assert [("Linear" in line, "pixels" in line) for line in refused] == [
        (True, False),
        (False, True),
    ]

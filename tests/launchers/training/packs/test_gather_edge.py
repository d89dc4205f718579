"""Gathered tokens give the losses and gradients of all-to-all; two ranks on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.timeout(180)
def test_gathered_tokens_agree_with_all_to_all() -> None:
    assert ranks_on_cpu.held("tests.launchers.training.packs.gather_edge") == 18

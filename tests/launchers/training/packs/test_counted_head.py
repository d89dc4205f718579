"""The head computes counted tokens only, and all numbers stay; two ranks on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.timeout(240)
def test_tokens_without_a_label_need_no_head() -> None:
    assert ranks_on_cpu.held("tests.launchers.training.packs.counted_edge") == 10

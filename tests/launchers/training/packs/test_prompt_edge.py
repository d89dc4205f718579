"""Prompts once give the log-probabilities and gradients of whole texts; two ranks on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.timeout(300)
def test_prompts_once_agree_with_whole_texts() -> None:
    assert ranks_on_cpu.held("tests.launchers.training.packs.prompt_edge") == 8

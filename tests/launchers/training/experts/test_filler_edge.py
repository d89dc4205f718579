"""Filler of packs reaches neither balancing losses nor experts' counts; two ranks on CPU."""

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
def test_filler_counts_nowhere() -> None:
    assert ranks_on_cpu.held("tests.launchers.training.experts.filler_edge") == 18

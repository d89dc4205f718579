"""The log-probabilities with which an export is compared; those of transformers: `tests/demo`."""

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_training


@needs_training
def test_ms_swifts_megatron_trainer_records_the_held_out_pairs() -> None:
    assert ranks_on_cpu.held("tests.launchers.evaluation.probe_edge") == 6

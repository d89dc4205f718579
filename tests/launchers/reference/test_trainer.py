"""Our DPO trainer gives ms-swift's losses, from a store that survives kills; on CPU."""

from tests.launchers import warm
from tests.launchers.training_environment import needs_training


@needs_training
def test_our_trainer_agrees_with_that_of_ms_swift() -> None:
    said = warm.printed("-m", "tests.launchers.reference.reference_edge").splitlines()
    assert said[-1] == "19 hold"

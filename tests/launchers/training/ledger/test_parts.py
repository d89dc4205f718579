"""The ledger is a permutation of the pairs in each epoch, whatever interrupts its writer."""

import json
from pathlib import Path

import pytest

from scripts.report import facts
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
FAULTS = 200


@pytest.mark.timeout(300)
def test_after_200_kills_each_pair_is_there_once_an_epoch(tmp_path: Path) -> None:
    module = "tests.launchers.training.ledger.faults"
    said = warm.printed("-m", module, "1", str(FAULTS), tmp_path)
    found = json.loads(said.splitlines()[-1])
    assert len(found["epochs"]) == found["steps"] // 10
    assert [
        each
        for each in found["epochs"]
        if (each["once"], each["again"]["count"], each["not_trained"]) != (40, 0, 0)
    ] == []
    assert (found["first_step"], found["last_step"]) == (1, found["steps"])
    assert found["missing_steps"]["count"] == 0
    assert found["ascends"]  # of a step that was trained again, the last attempt's numbers stay
    assert facts.proof(found).endswith("each exactly once in each epoch")

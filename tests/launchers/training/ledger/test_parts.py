"""The ledger is a permutation of the pairs in each epoch, whatever interrupts its writer."""

import json
from pathlib import Path

import numpy as np

from launchers.training.ledger.summary import summary
from scripts.report import facts
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

FAULTS = 200


@needs_training
def test_after_200_kills_each_pair_is_there_once_an_epoch(tmp_path: Path) -> None:
    module = "tests.launchers.training.ledger.faults"
    said = warm.printed("-m", module, "1", str(FAULTS), tmp_path)
    found = json.loads(said.splitlines()[-1])
    counted = [(e["once"], e["again"]["count"], e["not_trained"]) for e in found["epochs"]]
    assert counted == [(40, 0, 0)] * (found["steps"] // 10)
    assert (found["first_step"], found["last_step"]) == (1, found["steps"])
    assert found["missing_steps"]["count"] == 0
    assert found["ascends"]  # of a step that was trained again, the last attempt's numbers stay
    assert facts.proof(found).endswith("each exactly once in each epoch")


def test_a_pair_that_was_trained_twice_or_never_and_a_missing_step_are_counted() -> None:
    columns = {name: np.zeros(3, int) for name in ("epoch", "pack", "row", "file", "margin")}
    columns |= {"step": np.array([1, 1, 3]), "pair": np.array([0, 0, 1])}
    found = summary(columns, ["a.jsonl"], 3)
    (epoch,) = found["epochs"]
    assert (epoch["once"], epoch["again"]["count"], epoch["not_trained"]) == (1, 1, 1)
    assert found["missing_steps"] == {"count": 1, "steps": [2]}
    assert "exactly once" not in facts.proof(found)

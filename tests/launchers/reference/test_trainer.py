"""Our DPO trainer gives ms-swift's losses, from a store that survives kills; on CPU."""

from __future__ import annotations

from tests.launchers import warm
from tests.launchers.training_environment import needs_training

SHOWN = (
    "ms-swift finds our trainer",
    "loss plain",
    "loss {'label_smoothing': 0.2}",
    "loss {'rpo_alpha': 0.7}",
    "loss {'f_divergence_type': 'js_divergence'}",
    "loss {'f_divergence_type': 'alpha_divergence'}",
    "loss {'reference_free': True}",
    "loss {'padding_free': False}",
    "loss {'padding_free': False, 'rpo_alpha': 0.7}",
    "swapped plain",
    "swapped {'padding_free': False}",
    "swapped {'label_smoothing': 0.2}",
    "a killed pass resumes",
    "the model is in the state of a reference, and then as it was",
    "values are those of each text by itself",
    "the first loss is ln 2",
    "an unknown pair ends the run with its id",
    "a resumed run reads the store",
    "a resumed run without the store is refused",
)


@needs_training
def test_our_trainer_agrees_with_that_of_ms_swift() -> None:
    said = warm.printed("-m", "tests.launchers.reference.reference_edge").splitlines()
    assert [line for line in SHOWN if line not in said] == []

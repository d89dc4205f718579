"""With chosen and rejected swapped, every metric of ms-swift's reward trainers follows."""

import json

import pytest

from tests.launchers import warm
from tests.launchers.training_environment import needs_training

LAYOUTS = {"megatron": 4, "transformers": 2}
"""Layouts of the batch by backend: padded or packed, with and without centred rewards."""


@needs_training
@pytest.mark.parametrize("backend", LAYOUTS)
def test_every_metric_of_a_reward_model_follows_a_swap(backend: str) -> None:
    said = warm.printed("-m", "tests.launchers.training.collect.swapped_reward", backend)
    reported = [json.loads(line) for line in said.splitlines() if line.startswith("[")]
    assert len(reported) == LAYOUTS[backend]
    for before, after in reported:
        assert before["rewards/accuracies"] not in (0.0, 0.5, 1.0), "the case shows nothing"
        assert abs(before["rewards/margins"]) > 1e-3, "the case shows nothing"
        expected = {
            **before,  # center_rewards_loss stays
            "loss": before["loss"] + before["rewards/margins"],  # -log s(-m) = -log s(m) + m
            "rewards/chosen": before["rewards/rejected"],
            "rewards/rejected": before["rewards/chosen"],
            "rewards/accuracies": 1 - before["rewards/accuracies"],
            "rewards/margins": -before["rewards/margins"],
        }
        assert after == pytest.approx(expected, rel=1e-5, abs=1e-6)

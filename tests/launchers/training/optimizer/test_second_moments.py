"""The rules of adam_beta2 accept what the simulation of narrow second moments shows to be right."""

import json
from typing import Any

import pytest

from launchers.rules import table
from tests.launchers import warm
from tests.launchers.training_environment import STACK

ONE = table.Context(model_config=None, nodes=1, gpus_per_node=8, backend="megatron")
RULE, WARNING = "adam-beta2-moments", "second-moments-fp8"

pytestmark = pytest.mark.skipif(not STACK.is_installed, reason="no .tools/train: run `make setup`")


@pytest.fixture(scope="module")
def figures() -> dict[tuple[str, float], dict[str, float]]:
    """Return the simulation's figures by type and ``adam_beta2``."""
    printed = warm.printed("-m", "tests.launchers.training.optimizer.second_moments")
    found = [json.loads(line) for line in printed.splitlines()]
    return {(each.pop("type"), each.pop("beta2")): each for each in found}


def args(name: str, beta2: float) -> dict[str, Any]:
    aware = {"use_precision_aware_optimizer": "true", "num_train_epochs": "1"}
    return {**aware, "exp_avg_sq_dtype": name, "adam_beta2": str(beta2)}


def is_refused(name: str, beta2: float) -> bool:
    return RULE in {refusal.id for refusal in table.check(args(name, beta2), ONE)}


def test_what_is_accepted_decays(figures: dict[tuple[str, float], dict[str, float]]) -> None:
    accepted = {key: found for key, found in figures.items() if not is_refused(*key)}
    assert {name for name, _ in accepted} == {"bf16", "fp16", "fp8"}
    for key, found in accepted.items():
        assert found["too_large"] == pytest.approx(1, abs=0.05), key


@pytest.mark.parametrize(
    "name, beta2, least", [("bf16", 0.999, 1.8), ("fp8", 0.98, 1.1), ("fp8", 0.99, 50)]
)
def test_what_does_not_decay_is_refused(
    figures: dict[tuple[str, float], dict[str, float]], name: str, beta2: float, least: float
) -> None:
    assert figures[name, beta2]["too_large"] > least
    assert is_refused(name, beta2)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8"])
def test_moments_that_are_rounded_to_zero_are_a_warning(
    figures: dict[tuple[str, float], dict[str, float]], name: str
) -> None:
    warned = WARNING in {refusal.id for refusal in table.warn(args(name, 0.95), ONE)}
    assert warned == (figures[name, 0.95]["step"] > 10)

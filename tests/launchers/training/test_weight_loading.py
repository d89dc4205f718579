"""Weights that are read once for policy and reference, among fakes of mcore-bridge."""

import json
from pathlib import Path

import pytest

from launchers.config.recipe import parse
from launchers.flags import features
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.recipes import FIELDS
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import PYTHON, needs_training


@pytest.mark.parametrize(
    ("change", "once"),
    [
        ({}, True),
        ({"args": {"rlhf_type": "kto"}}, True),
        ({"args": {"rlhf_type": "rm"}}, False),
        ({"args": {"tuner_type": "lora"}}, False),
        ({"task": "sft"}, False),
        ({"backend": "transformers"}, False),
    ],
)
def test_only_a_run_with_a_reference_of_its_own_copies(
    change: dict[str, object], once: bool
) -> None:
    recipe = parse(FIELDS | change)
    assert ("one_read" in features.names(recipe, on_cpu=False)) == once
    assert features.callbacks(recipe, on_cpu=False)[0] == "phases"


def run(tmp_path: Path, case: str) -> dict[str, object]:
    here = Path(__file__).parent
    env = {**fake_upstream.ACCEPTED, "PYTHONPATH": f"{ROOT}:{here / 'fakes'}"}
    words = (here / "weight_loading_case.py", tmp_path, case)
    found: dict[str, object] = json.loads(warm.printed(*words, program=PYTHON, **env))
    return found


@needs_training
@pytest.mark.parametrize(
    ("case", "reads"),
    [
        ("same", ["base", "base"]),
        ("other", ["base", "other", "base"]),
        ("wide", ["base", "base", "base"]),
        ("converter", ["base", "base", "base"]),
    ],
)
def test_a_copied_reference_equals_a_read_one(tmp_path: Path, case: str, reads: list[str]) -> None:
    """The second of three reads is left out, and only if it would be the same."""
    reported = run(tmp_path, case)
    assert reported == {"reads": reads, "equal": True, "shared": False, "scratch": 0.0}


@needs_training
def test_models_that_differ_are_read_twice(tmp_path: Path) -> None:
    assert run(tmp_path, "differences") == {
        "equal": "",
        "shape": "w is (3, 2) torch.bfloat16, not (2, 3) torch.bfloat16",
        "type": "w is (2, 3) torch.float32, not (2, 3) torch.bfloat16",
        "missing": "w is only in one of them",
        "more": "b is only in one of them",
        "quantized": "w is quantized",
    }

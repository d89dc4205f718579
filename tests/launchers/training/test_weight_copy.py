from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.recipe import parse
from launchers.flags.features import callbacks, plugins
from launchers.training.weight_copy import Tensor, unlike
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

WEIGHT = Tensor(shape=(2, 3), dtype="torch.bfloat16", is_plain=True)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"w": replace(WEIGHT, shape=(3, 2))}, "w is"),
        ({"w": replace(WEIGHT, dtype="torch.float32")}, "w is"),
        ({}, "w is only in one of them"),
        ({"w": WEIGHT, "b": WEIGHT}, "b is only in one of them"),
    ],
)
def test_models_that_differ_are_read_twice(other: dict[str, Tensor], why: str) -> None:
    assert unlike({"w": WEIGHT}, other).startswith(why)
    assert unlike({"w": WEIGHT}, {"w": WEIGHT}) == ""


def test_quantized_weights_are_read_twice() -> None:
    quantized = {"w": replace(WEIGHT, is_plain=False)}
    assert unlike(quantized, quantized) == "w is quantized"


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
    document = {"backend": "megatron", "task": "rlhf", "model": "m", "dataset": ["d"]}
    recipe = parse(document | change)
    loaded = plugins(recipe, Path("/l"), None, on_cpu=False)
    assert ("/l/swift_one_read.py" in loaded) == once
    assert callbacks(recipe, on_cpu=False)[0] == "phases"


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
    """Of three reads the second is left out, and only where it would be the same."""
    fakes = Path(__file__).parents[1] / "fakes" / "mcore"
    done = subprocess.run(
        [PYTHON, Path(__file__).parents[1] / "one_read_case.py", tmp_path, case],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{fakes}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {"reads": reads, "equal": True, "shared": False, "scratch": 0.0}

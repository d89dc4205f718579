"""An export is read back with the training environment's torch and transformers."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchers.rehearsal.load_export import main, read_shapes
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = needs_training
CASE = Path(__file__).with_name("load_export_case.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    words = [str(PYTHON), str(CASE), str(tmp_path_factory.mktemp("exports"))]
    env = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    parsed: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def test_a_whole_export_is_loaded_and_run(found: dict[str, dict[str, Any]]) -> None:
    whole = found["whole"]
    assert (whole["problems"], whole["model"]) == ([], "Qwen3ForCausalLM")
    assert whole["tensors"] == 13 and whole["bytes"] > 1000 and whole["seconds"] > 0


def test_a_large_one_is_only_read(found: dict[str, dict[str, Any]]) -> None:
    assert (found["large"]["problems"], found["large"]["model"]) == ([], "")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("short", "1 of 13 tensors are missing: model.norm.weight"),
        ("wide", "1 tensors have another shape: model.norm.weight"),
        ("nan", "1 tensors hold NaN or Inf: model.norm.weight"),
    ],
)
def test_a_fault_of_the_export_is_a_problem(
    found: dict[str, dict[str, Any]], name: str, problem: str
) -> None:
    assert found[name]["problems"] == [problem]
    assert not found[name]["model"]


def test_an_export_that_cannot_be_read_is_a_problem_too(tmp_path: Path) -> None:
    export, result = tmp_path / "export", tmp_path / "result.json"
    export.mkdir()
    (export / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ValueError, match=r"model\.safetensors is not a safetensors file"):
        read_shapes(export)
    assert main([str(export), str(export), str(result)]) == 0
    [problem] = json.loads(result.read_text())["problems"]
    assert problem == "ValueError: model.safetensors is not a safetensors file"

"""Errors of an export are found by loading it as a server would, with the real transformers."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.hub.fetch import INDEX
from launchers.rehearsal.load_export import main
from tests.launchers import warm
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = needs_training
CASE = Path(__file__).with_name("planted_exports.py")
Found = dict[str, dict[str, Any]]
NUMBERS = "the log-probabilities of 6 pairs differ from the trainer's by "
TOKENIZER = "the exported tokenizer's "


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    # a Python that has not imported ms-swift, which patches transformers
    folder = tmp_path_factory.mktemp("planted")
    said = warm.printed(CASE, folder, program=PYTHON, HF_HUB_OFFLINE="1")
    parsed: Found = json.loads(said.splitlines()[-1])
    return parsed


def test_a_whole_export_has_the_trainers_log_probabilities(found: Found) -> None:
    whole = found["whole"]
    assert (whole["problems"], whole["not_compared"]) == ([], "")
    assert whole["compared"]["pairs"] == 6 and whole["compared"]["held_out"]
    assert whole["compared"]["difference"] < 1e-5 < whole["compared"]["bound"]


DIFFER = (
    "a layer written twice",
    "a tied head",
    "weights in bf16",
    "an adapter not merged",
    "experts permuted",
    "a matrix transposed",
    "a stale shard",
    "a norm scaled by 1.01",
    "positions with another base",
    "one expert a token",
)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((name, NUMBERS) for name in DIFFER),
        ("a layer dropped", "21 of 66 tensors are missing: "),
        ("dtype in config.json", "config.json says float16, but float32 weights were trained"),
        ("another chat template", f"{TOKENIZER}chat template differs"),
        ("no chat template", f"{TOKENIZER}chat template differs"),
        ("a token of the tokenizer missing", f"{TOKENIZER}encoding of texts differs"),
        ("another end of a text", f"{TOKENIZER}end token differs"),
        ("a norm dropped", "1 of 66 tensors are missing: model.norm.weight"),
        ("a norm of 17", "1 tensors have another shape: model.norm.weight"),
        ("not a number", "1 tensors hold NaN or Inf: model.norm.weight"),
        ("a shard that the index lacks", f"{INDEX} names another file, or none, for 1 tensors: "),
        ("another end of an answer", "texts no longer end at the tokens [38] (eos_token_id)"),
        ("another class", "config.json names Qwen3MoeModel, and transformers loads Qwen3MoeFor"),
    ],
)
def test_each_planted_error_is_a_problem(name: str, problem: str, found: Found) -> None:
    [first, *more] = found[name]["problems"]
    assert first.startswith(problem) and not more


def test_without_the_trainers_numbers_a_small_model_is_run_and_a_large_one_read(
    found: Found,
) -> None:
    alone, read = found["alone"], found["read"]
    assert (alone["problems"], alone["model"]) == ([], "Qwen3MoeForCausalLM")
    assert alone["tensors"] == 66 and alone["bytes"] > 1000 and alone["seconds"] > 0
    assert (read["problems"], read["model"]) == ([], "")


def test_a_file_that_is_not_of_weights_is_a_problem(tmp_path: Path) -> None:
    export, result = tmp_path / "export", tmp_path / "result.json"
    export.mkdir()
    (export / "model.safetensors").write_bytes(b"weights")
    assert main([str(export), str(export), str(result)]) == 0
    [problem] = json.loads(result.read_text())["problems"]
    assert problem == "ValueError: model.safetensors is not a safetensors file"


def test_a_model_that_fits_nowhere_is_not_compared_and_says_why(found: Found) -> None:
    large = found["large"]
    assert large["problems"] == [] and not large["compared"]
    assert "fit neither into the free GPU memory nor into the host's" in large["not_compared"]

"""Sources of a model's sizes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.recipe import Recipe
from scripts.plan.inputs import find_model, known_models
from scripts.problem import Problem

CONFIG = known_models()["Qwen3-0.6B"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 3}))
    return tmp_path


def test_a_fine_tuned_model_has_the_sizes_of_the_known_one() -> None:
    found, where = find_model("hf://someone/Qwen3-30B-A3B-Instruct-2507@main")
    assert found is not None
    assert (found.layers, where) == (48, "known as Qwen3-30B-A3B")


@pytest.mark.parametrize("name", ["Qwen3-30B", "Qwen3-300B-A3B", "Qwen2.5-VL-7B", "Llama-3-8B"])
def test_another_model_is_not_taken_for_a_known_one(name: str) -> None:
    found, where = find_model(f"hf://o/{name}@main")
    assert found is None
    assert where == f"the sizes of {name} are not known: give --model-config config.json"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_folder_of_this_machine_is_read_and_a_file_that_was_given_wins(
    folder: Path, mark: bytes
) -> None:
    config = folder / "config.json"
    config.write_bytes(mark + config.read_bytes())
    for given in ((f"file://{folder}",), ("hf://Qwen/Qwen3-0.6B@main", config)):
        found, where = find_model(*given)
        assert found is not None
        assert (found.layers, where) == (3, str(config))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hidden_size": 2}', '{"hidden_size": "x"}'])
def test_a_file_without_sizes_is_a_problem_that_names_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(Problem, match=str(file)):
        find_model("hf://o/m@main", file)
    with pytest.raises(Problem, match="No such file"):
        find_model("hf://o/m@main", tmp_path / "none.json")


def test_a_model_that_the_recipe_cannot_train_is_a_problem(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG | {"architectures": ["GemmaForCausalLM"]}))
    recipe = Recipe(backend="megatron", task="rlhf", model="hf://o/m@main", dataset=(), args={})
    with pytest.raises(Problem, match="not with Megatron"):
        find_model(recipe.model, config, recipe)
    assert find_model(recipe.model, config, replace(recipe, backend="transformers"))[0]

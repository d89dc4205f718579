from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import parse
from launchers.config.settings import Settings, from_env
from launchers.exits import Exit, LaunchError
from launchers.flags.flag_types import Kind
from launchers.inputs import preconditions as checking

NAMES = """
async_save context_parallel_size expert_model_parallel_size expert_tensor_parallel_size
external_plugins global_batch_size lr micro_batch_size num_train_epochs optimizer output_dir
pipeline_model_parallel_size save_safetensors save_strategy tensor_model_parallel_size
"""
KINDS = {"optimizer": Kind(sort="choice", choices=("adam", "sgd"))}
KNOWN = checking.Known(names=frozenset(NAMES.split()), kinds=KINDS)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_GPUS_PER_NODE": "8"}
    return from_env(env)


def refusal(settings: Settings, **change: Any) -> str:
    document: dict[str, Any] = {
        "backend": "megatron",
        "task": "rlhf",
        "model": "hf://o/m@main",
        "dataset": ["hf://o/d@main"],
    }
    change["args"] = {"num_train_epochs": 1, **change.get("args", {})}
    with pytest.raises(LaunchError) as no:
        checking.check(settings, parse(document | change))
    assert no.value.code == Exit.CONFIG
    return str(no.value)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "known_flags", lambda recipe: KNOWN)


def test_a_sound_recipe_passes(settings: Settings) -> None:
    document = {
        "backend": "megatron",
        "task": "rlhf",
        "model": "hf://o/m@v",
        "dataset": ["d.jsonl"],
        "args": {"num_train_epochs": 1},
    }
    with pytest.raises(LaunchError, match=r"code\.url is empty"):
        checking.check(settings, parse(document))
    checking.check(settings, parse(document | {"dataset": ["hf://o/d@v#100"]}))


def test_all_mistakes_are_told_at_once(settings: Settings) -> None:
    text = refusal(
        settings,
        args={"lrr": "1e-5", "output_dir": "/x", "tensor_model_parallel_size": "3"},
    )
    assert "recipe.args.lrr: ms-swift has no such flag; the nearest is lr" in text
    assert "recipe.args.output_dir: the launcher sets this flag" in text
    assert "8 processes (nodes 1 x gpusPerNode 8) are not a multiple" in text
    assert "(3 mistakes)" in text


def test_a_stages_own_pod_does_not_judge_the_sizes_of_the_gang(tmp_path: Path) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_GPUS_PER_NODE": "0"}
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://o/m@v"}
    args = {"tensor_model_parallel_size": "4", "num_train_epochs": "1"}
    recipe = parse(document | {"dataset": ["hf://o/d@v"], "args": args})
    checking.check(from_env(env), recipe, is_gang=False)
    with pytest.raises(LaunchError, match="1 processes .* are not a multiple"):
        checking.check(from_env(env), recipe)


def test_a_secret_is_refused_and_not_repeated(settings: Settings) -> None:
    text = refusal(settings, args={"hub_token": "hf_CANARY"})
    assert "recipe.args.hub_token: a secret" in text
    assert "secrets.hf.existingSecret" in text
    assert "CANARY" not in text


def test_a_flag_of_ms_swift_3_is_told_todays_name(settings: Settings) -> None:
    assert "write num_train_epochs" in refusal(settings, args={"max_epochs": "1"})


def test_a_wrong_source_names_its_key(settings: Settings) -> None:
    assert "recipe.model" in refusal(settings, model="Qwen/Qwen3-30B-A3B")
    assert "recipe.dataset[1]" in refusal(settings, dataset=["hf://o/d@v", "hf://o/d"])


def test_what_the_command_line_refuses_is_refused_before_downloads(settings: Settings) -> None:
    text = refusal(settings, args={"lrr": "1", "async_save": True})
    assert "recipe.args.async_save=true returns before a checkpoint is whole" in text
    assert "recipe.args.lrr" in text
    plugin = refusal(settings, args={"external_plugins": ["plugins/a.py"]})
    assert "names 'plugins/a.py', and there is no clone; set code.url" in plugin


@pytest.mark.parametrize("no", ["no", "No", False, ["no"]])
@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_a_run_that_would_save_nothing_is_refused(
    settings: Settings, backend: str, no: object
) -> None:
    text = refusal(settings, backend=backend, args={"save_strategy": no})
    assert "recipe.args.save_strategy=" in text
    assert "nothing would be saved" in text


@pytest.mark.parametrize("no", [False, "False", "0", "no"])
def test_a_run_without_safetensors_is_refused(settings: Settings, no: object) -> None:
    text = refusal(settings, args={"save_safetensors": no})
    assert "recipe.args.save_safetensors=" in text
    assert "the export is made of safetensors" in text


def test_saving_by_steps_or_epochs_passes(settings: Settings) -> None:
    args = {"save_strategy": "epoch", "save_safetensors": True, "num_train_epochs": 1}
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://o/m@v"}
    checking.check(settings, parse(document | {"dataset": ["hf://o/d@v"], "args": args}))


def test_a_value_that_ms_swift_cannot_read_is_refused_once(settings: Settings) -> None:
    args = {"optimizer": "adamw", "lr": "fast", "save_strategy": "no", "micro_batch_size": "2x"}
    text = refusal(settings, args=args)
    assert 'recipe.args.optimizer: "adamw" is not known; write one of adam, sgd' in text
    assert 'recipe.args.lr: "fast" is no rate; write a number of 0 or more' in text
    assert 'recipe.args.micro_batch_size: "2x" is no size' in text
    assert "(4 mistakes)" in text


def test_a_flag_without_a_word_is_refused_as_by_the_chart(settings: Settings) -> None:
    text = refusal(settings, args={"lr": ""})
    assert 'recipe.args.lr: empty; write null to drop it, or [""] for an empty word' in text


def test_what_needs_no_model_is_told_with_the_other_mistakes(settings: Settings) -> None:
    text = refusal(settings, args={"num_train_epochs": None, "lrr": "1"})
    assert "recipe.args.num_train_epochs: missing, and train_iters too" in text
    assert "recipe.args.lrr" in text

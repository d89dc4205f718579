"""Model configs from config.json: the known models have exactly their published parameters."""

from __future__ import annotations

import pytest

from launchers.exits import Exit, LaunchError
from launchers.plan.model_config import EXPERTS, ModelConfig, parse_config
from scripts.plan.inputs import known_models

PUBLISHED = {
    "DeepSeek-MoE-16B": 16_375_728_128,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
}


def test_every_known_model_has_a_published_count() -> None:
    assert set(known_models()) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_the_published_one(name: str) -> None:
    model = parse_config(known_models()[name])
    assert model.parameters == PUBLISHED[name]
    assert model.unmodelled == ()


def test_the_parts_of_the_30b_are_those_of_the_issue() -> None:
    model = parse_config(known_models()["Qwen3-30B-A3B"])
    assert model.expert_parameters == 28_991_029_248
    assert model.dense_parameters == 1_541_093_376
    assert model.active_parameters == 3_353_032_704


@pytest.mark.parametrize("key", EXPERTS)
def test_each_name_for_the_experts_is_read(key: str) -> None:
    config = dict(known_models()["Qwen3-30B-A3B"])
    config[key] = config.pop("num_experts")
    assert parse_config(config).parameters == PUBLISHED["Qwen3-30B-A3B"]


def test_a_nested_text_config_is_read_and_the_vision_part_reported() -> None:
    model = parse_config({"text_config": known_models()["Qwen3-4B"], "vision_config": {"depth": 1}})
    assert model.parameters == PUBLISHED["Qwen3-4B"]
    assert model.unmodelled == ("vision_config",)


def test_a_model_whose_attention_is_not_counted_is_reported() -> None:
    assert parse_config(known_models()["Qwen3-4B"] | {"kv_lora_rank": 512}).unmodelled == (
        "kv_lora_rank",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", None), ("num_hidden_layers", "48"), ("vocab_size", 0), ("head_dim", True)],
)
def test_a_wrong_size_names_its_key(key: str, value: object) -> None:
    with pytest.raises(LaunchError, match=key) as error:
        parse_config(known_models()["Qwen3-30B-A3B"] | {key: value})
    assert error.value.code == Exit.DATA


def test_a_dense_model_has_no_experts() -> None:
    model = parse_config(known_models()["Qwen3-8B"])
    assert (model.is_moe, model.moe_layers, model.expert_parameters) == (False, 0, 0)
    assert isinstance(model, ModelConfig)

"""Model configs from config.json: the known models have exactly their published parameters."""

import pytest

from launchers.exits import Exit, LaunchError
from launchers.plan.model_config import EXPERTS, parse_config
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


@pytest.mark.parametrize(
    "keys", [("llm_config",), ("thinker_config", "text_config"), ("language_config",)]
)
def test_sizes_inside_the_config_of_a_decoder_are_read(keys: tuple[str, ...]) -> None:
    config: dict[str, object] = dict(known_models()["Qwen3-30B-A3B"])
    for key in reversed(keys):
        config = {key: config, "audio_config": {"layers": 1}}
    model = parse_config(config)
    assert model.parameters == PUBLISHED["Qwen3-30B-A3B"]
    assert model.multimodal and "audio_config" in model.unmodelled


@pytest.mark.parametrize(
    "change, dense",
    [
        ({}, 0),
        ({"first_k_dense_replace": 3}, 3),
        ({"mlp_only_layers": [0, 5]}, 2),
        ({"decoder_sparse_step": 2}, 24),
        ({"interleave_moe_layer_step": 2}, 24),
        ({"interleave_moe_layer_step": 2, "moe_layer_interval": 2}, 36),
        ({"moe_layers": [1, 3, 5]}, 45),
        ({"moe_layers": []}, 0),
        ({"first_k_dense_replace": 2, "moe_layer_freq": 2}, 25),
        ({"moe_layer_freq": [0] * 4 + [1] * 44}, 4),
        ({"mlp_layer_types": ["dense"] * 40}, 40),
        ({"mlp_layer_types": ["dense"] + ["sparse"] * 47}, 1),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1}, 1),
        ({"moe_layer_start_index": 2, "moe_layer_end_index": 40, "moe_layer_interval": 1}, 9),
        ({"moe_layers_enum": "4, 5, 6"}, 45),
        ({"moe_layer_num_skipped": 1}, 1),
        ({"num_dense_layers": 2}, 2),
    ],
)
def test_dense_layers_are_counted_where_they_are(change: dict[str, object], dense: int) -> None:
    config = known_models()["Qwen3-30B-A3B"] | {"intermediate_size": 6144} | change
    model = parse_config(config)
    assert model.dense_layers == dense
    more = model.mlp_parameters - model.expert_layer_parameters - model.router_parameters
    assert model.parameters == PUBLISHED["Qwen3-30B-A3B"] + dense * more


def test_llama_4_maverick_has_its_published_parameters() -> None:
    """400 billion, published without the vision part (Llama-4-Maverick-17B-128E)."""
    sizes = {"num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40}
    heads = {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048}
    widths = {"intermediate_size": 8192, "intermediate_size_mlp": 16384}
    experts = {"num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}
    text = {**sizes, **heads, **widths, **experts, "tie_word_embeddings": False}
    model = parse_config({"text_config": text, "vision_config": {}})
    assert model.dense == tuple(range(0, 48, 2))
    assert model.parameters == pytest.approx(400e9, rel=0.01)


def test_a_list_of_equal_sizes_is_one_size_and_of_others_a_short_message() -> None:
    config = known_models()["Qwen3-30B-A3B"]
    assert parse_config(config | {"num_experts_per_tok": [8] * 48}).topk == 8
    with pytest.raises(LaunchError) as error:
        parse_config(config | {"num_experts_per_tok": [4, 8] * 16})
    said = "config.json of the model: num_experts_per_tok has 32 different sizes"
    assert error.value.cause == said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("mamba_d_state", 128),
        ("conv_L_cache", 3),
        ("hidden_size_per_layer_input", 256),
        ("moe_num_primary_experts", 32),
        ("model_type", "hrm_text"),
    ],
)
def test_what_is_not_counted_of_a_dense_model_is_reported(key: str, value: object) -> None:
    config = known_models()["Qwen3-4B"]
    assert parse_config(config | {key: value}).unmodelled == (key,)
    assert parse_config(config | {key: config.get(key, 0)}).unmodelled == ()


def test_a_shared_expert_without_a_gate_is_counted() -> None:
    """Granite MoE has it as ``shared_intermediate_size``."""
    config = known_models()["Qwen3-30B-A3B"]
    more = parse_config(config | {"shared_intermediate_size": 1024}).parameters
    assert more == PUBLISHED["Qwen3-30B-A3B"] + 48 * 3 * 2048 * 1024


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", None), ("num_hidden_layers", "48"), ("vocab_size", 0), ("head_dim", True)],
)
def test_a_wrong_size_names_its_key(key: str, value: object) -> None:
    with pytest.raises(LaunchError, match=key) as error:
        parse_config(known_models()["Qwen3-30B-A3B"] | {key: value})
    assert error.value.code == Exit.DATA

"""Parameters of an adapter, and the part that a rank holds."""

from dataclasses import replace

import pytest

from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import IN_PEFT, adapter, shards, whole
from launchers.plan.training_job import Training
from tests.launchers.models import load_model_config

MOE, DENSE = load_model_config("Qwen3-30B-A3B"), load_model_config("Qwen3-4B")
ONE = Training(layout=Layout(nodes=1, gpus_per_node=1))
H, Q, KV, FFN = MOE.hidden, MOE.q_width, MOE.kv_width, MOE.expert_ffn
ATTENTION = [(H, Q + 2 * KV), (Q, H)]
EXPERT = [(H, 2 * FFN), (FFN, H)]


def both(layers: list[tuple[int, int]], rank: int = 8) -> int:
    """Count the two matrices of each adapted layer of (inputs, outputs)."""
    return sum(rank * (inputs + outputs) for inputs, outputs in layers)


def test_each_linear_layer_has_two_matrices_and_router_and_head_have_none() -> None:
    assert whole(MOE, ONE) == 48 * (both(ATTENTION) + 128 * both(EXPERT))
    assert whole(MOE, replace(ONE, lora_rank=16)) == 2 * whole(MOE, ONE)


def test_pefts_file_has_them_for_each_projection_of_hugging_face() -> None:
    attention = [(H, Q), (H, KV), (H, KV), (Q, H)]
    expert = [(H, FFN), (H, FFN), (FFN, H)]
    assert whole(MOE, ONE, IN_PEFT) == 48 * (both(attention) + 128 * both(expert))


@pytest.mark.parametrize(
    ("named", "layers"),
    [
        (("linear_qkv",), 48 * both(ATTENTION[:1])),
        (("self_attention.linear_proj",), 48 * both(ATTENTION[1:])),
        (("linear_fc1",), 48 * 128 * both(EXPERT[:1])),
        (("linear_fc2",), 48 * 128 * both(EXPERT[1:])),
        (("mlp.linear_fc1",), 0),  # no layer of this model is dense
        (("shared_experts.linear_fc2",), 0),
        (("all-router",), 48 * both([(H, 128)])),
        (("router", "experts.linear_fc2"), 48 * (both([(H, 128)]) + 128 * both(EXPERT[1:]))),
    ],
)
def test_what_is_named_is_adapted_alone(named: tuple[str, ...], layers: int) -> None:
    assert whole(MOE, replace(ONE, lora_modules=named)) == layers


@pytest.mark.parametrize(("model", "ep"), [(MOE, 4), (DENSE, 1)], ids=["moe", "dense"])
def test_stages_and_expert_ranks_hold_the_whole_between_them(model: ModelConfig, ep: int) -> None:
    split = replace(ONE, layout=Layout(nodes=1, gpus_per_node=8, pp=2, ep=ep))
    parts = [adapter(model, split, shard) for shard in shards(model, split.layout, head=True)]
    assert sum(dense + ep * experts for dense, experts in parts) == whole(model, ONE)


def test_tensor_ranks_split_the_matrix_on_the_side_of_the_layers_split() -> None:
    split = replace(ONE, layout=Layout(nodes=1, gpus_per_node=4, tp=4))
    (shard,) = shards(DENSE, split.layout, head=True)
    h, q, kv, ffn = DENSE.hidden, DENSE.q_width, DENSE.kv_width, DENSE.ffn
    whole_a, whole_b = (h, h), (h, h)  # of qkv and fc1; of proj and fc2
    parts = ((q + 2 * kv) // 4, 2 * ffn // 4, q // 4, ffn // 4)
    expected = DENSE.layers * 8 * sum((*whole_a, *whole_b, *parts))
    assert adapter(DENSE, split, shard) == (expected, 0)

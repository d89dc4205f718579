"""A row's arithmetic: the planner's formula, with the step's own lengths."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launchers.metrics import model as metrics_model
from launchers.metrics import step, vector
from launchers.metrics.model import Model
from launchers.metrics.rows import Row
from launchers.metrics.step import Clock
from launchers.metrics.vector import Places, Shared
from launchers.plan import flops
from tests.launchers.models import load_model_config

QWEN = load_model_config("Qwen3-30B-A3B")
DPO: dict[str, Any] = {"rlhf_type": "dpo", "tuner_type": "full"}
BLOCK = DPO | {"recompute_granularity": "full", "recompute_method": "block"}


def row(model: Model | None, tokens: int, s_eff: float, seconds: float, world: int) -> Row:
    memory = {"allocated": 2.0**31, "reserved": 2.0**32}
    of_tokens = {"squares": tokens * s_eff, "token_balance": 1.01, "data_seconds": 0.5}
    shared = Shared(tokens=tokens, sequences=tokens // 100, **memory, **of_tokens)
    clock = Clock(step=1, total=2, attempt=1, time=0.0, seconds=seconds, other_seconds=0.0)
    return step.row(clock, world=world, shared=shared, model=model)


def model(gpu_model: str | None = "h200", *, precomputed: bool = False, **args: Any) -> Model:
    training = metrics_model.training(SimpleNamespace(**args), 16, precomputed=precomputed)
    return Model(model_config=QWEN, training=training, gpu_model=gpu_model)


def test_the_published_throughputs_come_out_of_a_row() -> None:
    """Pre-training at 4096 tokens on H100: NVIDIA Megatron-Bridge, see rows/nvidia.yaml."""
    first = row(model("h100-80g"), 8826, 4096, 1.0, 1)
    assert f"{first.model_tflops_per_gpu:.2f}" == "203.05"
    second = row(model("h100-80g"), 1024 * 4096, 4096, 20.147, 16)
    assert f"{second.model_tflops_per_gpu:.2f}" == "299.35"
    assert second.mfu == pytest.approx(299.35 / 989, abs=1e-4)


def test_a_row_is_the_offline_formula() -> None:
    given = model(**DPO, recompute_granularity="full", recompute_method="uniform")
    found = row(given, 240_000, 2500.0, 4.25, 4)
    rate = 240_000 / 4.25 / 4
    assert found.tokens_per_second_per_gpu == pytest.approx(rate, rel=1e-12)
    assert found.s_eff == pytest.approx(2500)
    each = flops.forward(QWEN, 2500) / 1e12
    assert found.model_tflops_per_gpu == pytest.approx(rate * 4 * each, rel=1e-12)
    assert found.hardware_tflops_per_gpu == pytest.approx(rate * 5 * each, rel=1e-12)
    assert found.mfu == pytest.approx(rate * 4 * each / 989, rel=1e-12)
    assert (found.allocated_gib, found.reserved_gib, found.card) == (2.0, 4.0, "h200")


@pytest.mark.parametrize(
    ("args", "precomputed", "passes", "again"),
    [
        (DPO, False, 4, 0),
        (DPO, True, 3, 0),
        ({"tuner_type": "full"}, False, 3, 0),
        ({"rlhf_type": "rm"}, False, 3, 0),
        (DPO | {"tuner_type": "lora"}, False, 3, 0),
        (DPO | {"recompute_granularity": "selective"}, False, 4, 0),
        (DPO | {"recompute_granularity": "full", "recompute_method": "uniform"}, True, 3, 1),
        (BLOCK | {"recompute_num_layers": 6, "pipeline_model_parallel_size": 2}, False, 4, 0.25),
        (BLOCK | {"recompute_num_layers": 60}, False, 4, 1),
    ],
)
def test_passes_of_a_job(args: Any, precomputed: bool, passes: float, again: float) -> None:
    of_model, of_hardware = model(**args, precomputed=precomputed).tflop(2048)
    each = flops.forward(QWEN, 2048) / 1e12
    assert of_model / each == pytest.approx(passes)
    assert of_hardware / each == pytest.approx(passes + again)


def test_kto_has_flops_where_it_has_no_kl_rows(tmp_path: Path) -> None:
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 128, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    args = {"rlhf_type": "kto", "model_dir": str(tmp_path)}
    for kl in (True, False):
        given = SimpleNamespace(**args, calculate_KL=kl)
        assert (metrics_model.found(given, 1, "", precomputed=False) is None) == kl


def test_a_gpu_model_that_is_not_listed_has_no_mfu() -> None:
    found = row(model(None), 1000, 100.0, 1.0, 1)
    assert found.mfu is None
    assert found.model_tflops_per_gpu is not None


def test_without_counts_a_row_has_no_speed() -> None:
    found = row(model(), 0, 1.0, 1.0, 1)
    assert (found.tokens, found.tokens_per_second_per_gpu, found.mfu) == (None, None, None)
    assert found.data_seconds == 0.5


def test_what_the_packs_hold() -> None:
    args = SimpleNamespace(packing=True, packing_length=8192, max_length=4096, global_batch_size=8)
    assert metrics_model.capacity(args) == 8 * 8192
    assert metrics_model.capacity(SimpleNamespace(packing=True, max_length=10)) == 0
    assert metrics_model.capacity(SimpleNamespace(packing=False)) == 0


def test_one_sum_holds_every_ranks_numbers() -> None:
    places = Places(world=2, layers=2, experts=4)
    values = [0.0] * places.size
    values[places.rank(0)] = [600.0, 9.0, 3.0, 0.25, 5.0, 7.0, 500.0]
    values[places.rank(1)] = [400.0, 1.0, 1.0, 0.5, 6.0, 6.0, 600.0]
    values[places.layer(1, 0, 2)] = [4.0, 1.0]
    values[places.layer(1, 2, 2)] = [2.0, 1.0]
    found = vector.shared(values, places)
    assert (found.tokens, found.squares, found.sequences) == (1000, 10.0, 4)
    assert (found.data_seconds, found.allocated, found.reserved) == (0.5, 6.0, 7.0)
    assert (found.token_balance, found.watts) == (1.2, 1100.0)
    values[places.rank(1)] = [400.0, 1.0, 1.0, 0.5, 6.0, 6.0, 0.0]
    assert vector.shared(values, places).watts is None
    assert (found.expert_load, found.expert_load_worst) == (2.0, 2.0)  # layer 0 is dense

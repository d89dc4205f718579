"""Model states of the transformers trainer: which parts a GPU holds, and what plan says of them."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest import approx
from rich.console import Console

from launchers.config.recipe import Recipe
from scripts.plan.command import Request, run
from scripts.plan.inputs import find_model
from scripts.plan.transformers import states

MODEL, _ = find_model("hf://Qwen/Qwen2.5-7B-Instruct@main")
assert MODEL is not None
GIB = MODEL.parameters / 2**30
"""GiB of a byte for each parameter."""


def found(task: Any = "sft", world: int = 4, **args: Any) -> states.States | None:
    recipe = Recipe(backend="transformers", task=task, model="m", dataset=("d",), args=args)
    assert MODEL is not None
    return states.predict(recipe, MODEL, world=world)


@pytest.mark.parametrize(
    ("args", "bytes_of_parameter"),
    [
        ({}, 2 + 2 + 4),
        ({"torch_dtype": "float32"}, 4 + 4 + 8),
        ({"deepspeed": "zero1"}, 2 + 2 + 12 / 4),
        ({"deepspeed": "zero2"}, 2 + (2 + 12) / 4),
        ({"deepspeed": "zero2_offload"}, 2),
        ({"deepspeed": "zero3"}, (2 + 2 + 12) / 4),
        ({"deepspeed": "zero3_offload"}, 0),
        ({"fsdp": "fsdp2"}, (4 + 4 + 8) / 4),
    ],
)
def test_each_stage_divides_one_more_part(args: dict[str, Any], bytes_of_parameter: float) -> None:
    of = found(tuner_type="full", **args)
    assert of is not None
    assert of.total == pytest.approx(bytes_of_parameter * GIB)
    kind = args.get("deepspeed", "")
    there = {"zero2_offload": 2 + 12, "zero3_offload": 2 + 2 + 12}.get(kind, 0)
    assert of.host == pytest.approx(there / 4 * GIB)


def test_an_adapter_keeps_the_frozen_weights_and_little_more() -> None:
    whole, sharded = found(), found(deepspeed="zero3")
    quantized = found(quant_method="bnb", quant_bits="4")
    assert whole is not None and sharded is not None and quantized is not None
    assert 2 * GIB < whole.total < 2.1 * GIB
    assert sharded.weights == pytest.approx(2 * GIB / 4)
    kept = 2 * 152064 * 3584 / 2**30  # embedding and head
    assert quantized.weights == pytest.approx(0.53 * (GIB - kept) + 2 * kept)


def test_dpo_of_all_parameters_has_a_reference_that_is_divided_as_the_weights() -> None:
    whole, sharded = (
        found("rlhf", tuner_type="full"),
        found("rlhf", tuner_type="full", fsdp="fsdp2"),
    )
    assert whole is not None and sharded is not None
    wide = found("rlhf", tuner_type="full", torch_dtype="float32")
    assert wide is not None
    assert (whole.reference, sharded.reference) == pytest.approx((2 * GIB, 2 * GIB / 4))
    assert wide.reference == pytest.approx(4 * GIB)


def test_a_users_own_file_is_not_guessed() -> None:
    assert found(deepspeed="/w/zero3.json") is None
    assert found(deepspeed={"zero_optimization": {"stage": 3}}) is None


def test_plan_shows_the_states_the_rows_of_all_nodes_and_the_advice_for_experts(
    tmp_path: Path,
) -> None:
    args = {"tuner_type": "full", "deepspeed": "zero3", "gradient_accumulation_steps": 4}
    values = {
        "nodes": 2,
        "gpusPerNode": 8,
        "workspace": {"existingClaim": "a"},
        "recipe": {
            "backend": "transformers",
            "model": "hf://Qwen/Qwen3-30B-A3B@main",
            "dataset": ["hf://o/d@main"],
            "args": {**args, "num_train_epochs": 1},
        },
    }
    (tmp_path / "v.yaml").write_text(yaml.safe_dump(values))
    said = StringIO()
    request = Request(run="dpo", files=[tmp_path / "v.yaml"], gpu="a100-80g")
    assert run(request, Console(file=said, width=400)) == 0
    text = said.getvalue()
    assert "at least 32.0 of 79.1 GiB a GPU, ZeRO-3 over 16 GPUs" in text
    assert "64 rows a step: 1 x 4 x 16 processes" in text
    assert "recipe.backend: megatron with expert_model_parallel_size" in text

    printed = StringIO()
    assert run(replace(request, as_json=True), Console(file=printed, width=400)) == 0
    states = json.loads(printed.getvalue())["model_states"]
    assert (states["sharding"], states["total_gib"]) == (
        "ZeRO-3 over 16 GPUs",
        approx(32.0, rel=0.01),
    )
    parts = ("weights_gib", "gradients_gib", "optimizer_gib", "reference_gib")
    assert sum(states[part] for part in parts) == approx(states["total_gib"], rel=0.001)

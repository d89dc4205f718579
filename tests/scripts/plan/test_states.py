"""Model states of the transformers trainer: which parts a GPU holds, and what plan says of them."""

import json
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


def predicted(task: Any = "sft", **args: Any) -> states.States | None:
    recipe = Recipe(backend="transformers", task=task, model="m", dataset=("d",), args=args)
    assert MODEL is not None
    return states.predict(recipe, MODEL, world=4)


def found(task: Any = "sft", **args: Any) -> states.States:
    made = predicted(task, **args)
    assert made is not None
    return made


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
    assert of.total == pytest.approx(bytes_of_parameter * GIB)
    kind = args.get("deepspeed", "")
    there = {"zero2_offload": 2 + 12, "zero3_offload": 2 + 2 + 12}.get(kind, 0)
    assert of.host == pytest.approx(there / 4 * GIB)


def test_an_adapter_keeps_the_frozen_weights_and_little_more() -> None:
    whole, sharded = found(), found(deepspeed="zero3")
    quantized = found(quant_method="bnb", quant_bits="4")
    assert 2 * GIB < whole.total < 2.1 * GIB
    assert sharded.weights == pytest.approx(2 * GIB / 4)
    kept = 2 * 152064 * 3584 / 2**30  # embedding and head
    assert quantized.weights == pytest.approx(0.53 * (GIB - kept) + 2 * kept)


def test_dpo_of_all_parameters_has_a_reference_that_is_divided_as_the_weights() -> None:
    for args, reference in (
        ({}, 2 * GIB),
        ({"fsdp": "fsdp2"}, 2 * GIB / 4),
        ({"torch_dtype": "float32"}, 4 * GIB),
    ):
        assert found("rlhf", tuner_type="full", **args).reference == pytest.approx(reference)


def test_a_users_own_file_is_not_guessed() -> None:
    assert predicted(deepspeed="/w/zero3.json") is None
    assert predicted(deepspeed={"zero_optimization": {"stage": 3}}) is None


def test_plan_shows_the_states_the_rows_of_all_nodes_and_the_advice_for_experts(
    tmp_path: Path,
) -> None:
    args = {"tuner_type": "full", "deepspeed": "zero3", "gradient_accumulation_steps": 4}
    inputs = {"model": "hf://Qwen/Qwen3-30B-A3B@main", "dataset": ["hf://o/d@main"]}
    recipe = {"backend": "transformers", **inputs, "args": {**args, "num_train_epochs": 1}}
    values = {"nodes": 2, "gpusPerNode": 8, "workspace": {"existingClaim": "a"}, "recipe": recipe}
    (tmp_path / "v.yaml").write_text(yaml.safe_dump(values))

    def shown(as_json: bool) -> str:
        console = Console(width=400)
        files = [tmp_path / "v.yaml"]
        with console.capture() as captured:
            request = Request(run="dpo", files=files, gpu="a100-80g", as_json=as_json)
            assert run(request, console) == 0
        return captured.get()

    text = shown(False)
    assert "at least 32.0 of 79.1 GiB a GPU, ZeRO-3 over 16 GPUs" in text
    assert "64 rows a step: 1 x 4 x 16 processes" in text
    assert "recipe.backend: megatron with expert_model_parallel_size" in text
    states = json.loads(shown(True))["model_states"]
    assert states["sharding"] == "ZeRO-3 over 16 GPUs"
    assert states["total_gib"] == approx(32.0, rel=0.01)
    parts = ("weights_gib", "gradients_gib", "optimizer_gib", "reference_gib")
    assert sum(states[part] for part in parts) == approx(states["total_gib"], rel=0.001)

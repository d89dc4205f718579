"""A model that a recipe does not fit is refused before it is fetched: real launchers, a real hub's
clients, only the hub itself is small."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe_file import load
from launchers.config.settings import from_env
from launchers.exits import Exit
from launchers.inputs import model_preview
from launchers.inputs.paths import inputs_of
from launchers.inputs.preconditions import broken_rules, check_model
from tests.launchers import model_folder
from tests.launchers.fake_hub import FakeHub, serve
from tests.launchers.pods import Pods

LIMIT = 15.0
"""Seconds from the start of a container to its refusal."""
SIZES: dict[str, Any] = {"model_type": "qwen3_moe", "num_hidden_layers": 6, "hidden_size": 64}
SIZES |= {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16, "vocab_size": 128}
SIZES |= {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SIZES |= {"intermediate_size": 128, "max_position_embeddings": 512}
ARGS: dict[str, Any] = {"tensor_model_parallel_size": 4, "sequence_parallel": True}
ARGS |= {"global_batch_size": 16, "num_train_epochs": 1, "recompute_granularity": "none"}
HEADS = "[tp-heads]"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    layer = 6 * 16 // model_folder.HIDDEN  # times that of model_folder, for 6 heads of 16
    held = model_folder.tensors(6, rows=128)
    held |= {name: data * layer for name, data in held.items() if "q_proj" in name}
    sizes = SIZES | {"hidden_size": model_folder.HIDDEN}
    model = model_folder.write(tmp_path / "hub", held, **sizes)
    with serve() as state:
        state.repos = {"models/o/m": {file.name: file.read_bytes() for file in model.iterdir()}}
        yield state


def write(pods: Pods, model: str = "", **args: Any) -> dict[str, str]:
    """Write a Megatron recipe; return the environment of two pods with four GPUs each."""
    source = pods.folder / "sources" / "model"
    (source / "config.json").write_text(json.dumps(SIZES))
    recipe = {"backend": "megatron", "args": {**ARGS, **args}}
    pods.write_recipe(model=model or f"file://{source}", **recipe)
    skips = {"SKIP_CONVERT": "1", "SKIP_PREFLIGHT": "1"}
    return {"DPO_GPUS_PER_NODE": "4", **skips, "HOME": str(pods.folder)}


def alone(pods: Pods, hub: FakeHub, code: Exit, env: dict[str, str]) -> str:
    """Run the pod of a gang of one, with a hub, to this exit code; return its output."""
    pods.nodes = 1
    return pods.alone("run", code, **env, HF_ENDPOINT=hub.url, MODELSCOPE_ENDPOINT=hub.url)


def test_a_local_model_is_looked_at_before_it_is_copied(pods: Pods) -> None:
    env = write(pods)
    begin = time.monotonic()
    pods.ended(Exit.CONFIG, Exit.PEER, **env)
    assert time.monotonic() - begin < LIMIT
    assert HEADS in pods.message(0)["cause"]
    assert HEADS in pods.message(1)["cause"]  # the other pods' logs name it too
    assert not (pods.folder / "workspace" / "models").exists()
    assert (pods.progress()["state"], pods.progress()["code"]) == ("failed", Exit.CONFIG)


def test_a_local_model_that_is_not_whole_is_refused_before_it_is_copied(pods: Pods) -> None:
    model_folder.split(pods.folder / "sources" / "model", [model_folder.ONE])
    pods.ended(Exit.DATA, Exit.PEER, HOME=str(pods.folder), SKIP_PREFLIGHT="1")
    message = pods.message(0)
    assert (message["class"], message["id"]) == ("model", "model-shard-missing")
    assert not (pods.folder / "workspace" / "models").exists()


@pytest.mark.parametrize(
    "id, keys",
    [
        ("model-quantized", {"quantization_config": {"quant_method": "gptq"}}),
        ("model-size-missing", {"num_hidden_layers": None}),
    ],
)
def test_a_hubs_model_that_cannot_be_trained_is_not_fetched(
    pods: Pods, hub: FakeHub, id: str, keys: dict[str, Any]
) -> None:
    hub.repos["models/o/m"]["config.json"] = json.dumps(SIZES | keys).encode()
    env = write(pods, "hf://o/m@main", tensor_model_parallel_size=1, sequence_parallel=False)
    alone(pods, hub, Exit.DATA, env)
    assert pods.message(0)["id"] == id
    assert not hub.gets("model.safetensors")


@pytest.mark.parametrize("model", ["hf://o/m@main", "ms://o/m@master"])
def test_of_a_hubs_model_only_the_small_file_is_fetched(
    pods: Pods, hub: FakeHub, model: str
) -> None:
    env = write(pods, model)
    begin = time.monotonic()
    alone(pods, hub, Exit.CONFIG, env)
    assert time.monotonic() - begin < LIMIT
    assert HEADS in pods.message(0)["cause"]
    asked = [line for line in hub.seen if line.startswith("GET")]
    assert any("config.json" in line for line in asked)
    assert not any("safetensors" in line for line in asked)


def test_a_hubs_model_has_a_whole_plan_before_it_is_fetched(pods: Pods, hub: FakeHub) -> None:
    fitting = {"tensor_model_parallel_size": 1, "sequence_parallel": False, "global_batch_size": 4}
    env = write(pods, "hf://o/m@main", **fitting)
    alone(pods, hub, Exit.DATA, env)  # one pair is too few: found before the model is fetched
    assert not hub.gets("model.safetensors")
    plan = json.loads((pods.folder / "workspace/runs/r/plan.json").read_text())
    assert plan["model"]["source"] == "config.json of hf://o/m@main"
    assert plan["memory"]["total_gib"] > 0


def test_a_hub_that_fails_at_first_is_asked_by_the_download_and_judged_after_it(
    pods: Pods, hub: FakeHub
) -> None:
    env = write(pods, "hf://o/m@main", global_batch_size=1)
    hub.faults["list"] = ["500"]
    output = alone(pods, hub, Exit.CONFIG, env)
    assert output.count("model not checked yet") == 1
    assert "HTTP 500" in output
    assert HEADS in pods.message(0)["cause"]
    assert pods.message(0)["stage"] == "download"
    assert list((pods.folder / "workspace" / "models").rglob("model.safetensors"))


def test_a_hub_that_is_not_there_is_reported_by_the_download(pods: Pods, hub: FakeHub) -> None:
    env = write(pods, "hf://o/other@main", global_batch_size=1)
    output = alone(pods, hub, Exit.INPUT_MISSING, env)
    assert pods.message(0)["stage"] == "download"
    assert "model not checked yet" in output


def test_a_model_that_fits_passes_and_what_is_unwise_is_logged(pods: Pods) -> None:
    env = write(pods, tensor_model_parallel_size=1, expert_model_parallel_size=8)
    output = pods.alone("check", **env)
    assert "model seen layers=6 experts=8" in output
    assert "sequence_parallel: has no effect at tensor_model_parallel_size 1" in output
    assert "is more than the 4 GPUs of a node" in output


@pytest.mark.parametrize("config", ["", "[]", "{", "[" * 100_000, '{"hidden_size": "six"}'])
def test_a_config_that_says_nothing_refuses_nothing(pods: Pods, config: str) -> None:
    env = write(pods)
    (pods.folder / "sources" / "model" / "config.json").write_text(config)
    assert "model not checked yet" in pods.alone("check", **env)


def test_the_model_is_judged_apart_from_what_is_judged_without_it(pods: Pods) -> None:
    env = pods.env(0, **write(pods, num_train_epochs=None, tensor_model_parallel_size=1))
    settings, recipe = from_env(env), load(pods.folder / "recipe.yaml")
    inputs = inputs_of(settings, recipe)
    assert check_model(settings, recipe, inputs, may_ask=False).is_final
    assert broken_rules(settings, recipe, None) != []


def test_the_hubs_answer_leaves_time_to_refuse() -> None:
    assert model_preview.HUB_TIMEOUT_SECONDS < LIMIT - 5

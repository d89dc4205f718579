import json
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import Recipe
from launchers.config.settings import Settings, from_env
from launchers.exits import Exit, LaunchError
from launchers.gang.protocol import Hello
from launchers.inputs.paths import inputs_of
from launchers.plan import document
from launchers.plan.model_config import ModelConfig, parse_config
from launchers.plan.plan import build, job_of
from launchers.preflight.preflight import Preflight
from launchers.run import plan_file
from scripts.plan.inputs import known_models
from tests.launchers import model_folder, pods
from tests.launchers.pods import Pods
from tests.launchers.recipes import recipe

CONFIG = known_models()["Qwen3-30B-A3B"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "DPO_RUN": "r",
        "DPO_WORKSPACE": str(tmp_path),
        "DPO_MASTER_ADDR": "here",
        "DPO_NODES": "2",
        "DPO_GPUS_PER_NODE": "8",
        "JOB_COMPLETION_INDEX": "0",
        "DPO_NETWORK_TRANSPORT": "NET/IB",
        "DPO_NETWORK_FLOOR_GBS": "17",
        "DPO_GPU_MODEL": "a100-80g",
    }


def lay_model(settings: Settings, made: Recipe, **change: Any) -> Path:
    model = inputs_of(settings, made).model
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps({**CONFIG, **change}))
    return model


def recorded(
    settings: Settings, made: Recipe, env: dict[str, str], seen: ModelConfig | None = None
) -> float | None:
    """Record the plan; return the room that its checkpoints need."""
    return plan_file.record(settings, made, inputs_of(settings, made), env, seen)


def written(
    settings: Settings, made: Recipe, env: dict[str, str], seen: ModelConfig | None = None
) -> dict[str, Any]:
    recorded(settings, made, env, seen)
    return pods.read(settings.launch.work.plan)


def test_the_plan_is_written_whole_once_the_model_is_there(env: dict[str, str]) -> None:
    settings, made = from_env(env), recipe()
    before = written(settings, made, env)
    assert before["memory"] is None
    assert "config.json does not exist yet" in before["unknown"]["memory"]
    lay_model(settings, made)
    after = written(settings, made, env)
    assert after["memory"]["total_gib"] > 0
    assert after["speed"]["step_seconds"] > 0
    shape = {"nodes": 2, "gpus_per_node": 8, "world_size": 16, "card": "a100-80g"}
    network = {"network": "NET/IB", "network_gbs": 20.0, "network_assumed": False}
    assert after["gang"] == shape | network
    assert [file.name for file in settings.launch.work.home.iterdir()] == ["plan.json"]


def test_the_room_for_checkpoints_is_known_with_the_model_and_what_is_there_counts(
    env: dict[str, str],
) -> None:
    settings, made = from_env(env), recipe(save_total_limit="2")
    assert recorded(settings, made, env) is None
    lay_model(settings, made)
    whole = recorded(settings, made, env)
    assert whole is not None and whole > 3 * 30.5e9 * 14  # three of them, optimizer included
    old = settings.launch.work.checkpoints / "checkpoint-1" / "model.safetensors"
    old.parent.mkdir(parents=True)
    old.write_bytes(bytes(1000))
    assert recorded(settings, made, env) == whole - 1000
    own = Hello.of_run(settings, made)
    with pytest.raises(LaunchError, match="needed by the checkpoints") as refused:
        Preflight(settings, "megatron", own, env).space(10**18)
    assert refused.value.code is Exit.QUOTA
    skipping = from_env({**env, "SKIP_PREFLIGHT": "1"})
    Preflight(skipping, "megatron", own, env).space(10**18)
    Preflight(settings, "megatron", own, env).space(None)


def test_an_adapter_asks_for_the_room_of_adapters_and_of_one_merged_model(
    env: dict[str, str],
) -> None:
    seen = parse_config(CONFIG)
    rooms = []
    for merge in ({}, {"merge_lora": True}, {"merge_lora": False}):
        made = recipe(save_total_limit="2", tuner_type="lora", **merge)
        rooms.append(recorded(from_env(env), made, env, seen))
    last, every, never = (room or 0 for room in rooms)
    model = 2 * seen.parameters
    assert last - never == model
    # also the adapters of the two saves before the last as safetensors: 2 x 0.84 GB
    assert every - never - 3 * model == pytest.approx(1.69e9, rel=0.01)
    assert 10e9 < never < 20e9  # three adapters with their optimizer


def test_what_the_hub_says_of_the_model_serves_until_the_model_is_there(
    env: dict[str, str],
) -> None:
    settings, made = from_env(env), recipe()
    before = written(settings, made, env, parse_config(CONFIG))
    assert before["memory"]["total_gib"] > 0
    assert before["model"]["source"] == f"config.json of {made.model}"
    model = lay_model(settings, made, num_hidden_layers=24)
    after = written(settings, made, env, parse_config(CONFIG))
    assert after["model"]["source"] == str(model / "config.json")
    assert after["memory"]["total_gib"] < before["memory"]["total_gib"]


def test_a_plan_is_written_again_only_if_it_has_changed(
    env: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settings, made = from_env(env), recipe()
    lay_model(settings, made)
    rooms = {recorded(settings, made, env, seen) for seen in (None, parse_config(CONFIG))}
    assert caplog.text.count("plan written") == len(rooms) == 1
    lay_model(settings, made, num_hidden_layers=24)
    recorded(settings, made, env)
    assert caplog.text.count("plan written") == 2


def test_a_config_that_is_broken_gives_a_plan_with_the_reason(env: dict[str, str]) -> None:
    settings, made = from_env(env), recipe()
    (lay_model(settings, made) / "config.json").write_text("{")
    assert "config.json" in written(settings, made, env)["unknown"]["memory"]


@pytest.mark.parametrize("change", [{}, {"DPO_NETWORK_FLOOR_GBS": "fast"}], ids=["file", "other"])
def test_a_plan_that_cannot_be_written_is_a_warning(
    env: dict[str, str], change: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    settings = from_env(env)
    if not change:
        settings.launch.work.home.parent.mkdir(parents=True)
        settings.launch.work.home.write_text("no folder")
    recorded(settings, recipe(), env | change)
    assert "plan not written" in caplog.text


def test_a_run_leaves_its_plan(tmp_path: Path) -> None:
    run = Pods(tmp_path)
    model_folder.write(tmp_path / "sources" / "model", {"embed": bytes(16)}, **CONFIG)
    outputs = run.ended()
    plan = pods.read(run.run / "plan.json")
    assert (plan["version"], plan["run"], plan["gang"]["nodes"]) == (document.VERSION, "r", 2)
    assert "megatron only" in plan["unknown"]["memory"]
    assert plan["model"]["layers"] == 48  # it was not there before the download
    assert ["plan written" in output for output in outputs] == [True, False]


def test_the_file_is_the_document_of_the_same_plan(env: dict[str, str]) -> None:
    settings, made = from_env(env), recipe()
    model = lay_model(settings, made)
    model_config, where = plan_file.read_sizes(model / "config.json")
    plan = build(job_of(settings, made, env, model_config=model_config, model_config_source=where))
    assert written(settings, made, env) == document.document(plan)

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import Recipe, parse
from launchers.config.settings import Settings, from_env
from launchers.exits import Exit, LaunchError
from launchers.flags.flag_types import FlagType
from launchers.inputs import preconditions as checking
from launchers.inputs.paths import inputs_of
from launchers.upstream import source

NAMES = """
async_save context_parallel_size expert_model_parallel_size expert_tensor_parallel_size
external_plugins global_batch_size lr micro_batch_size num_train_epochs optimizer output_dir
pipeline_model_parallel_size save_safetensors save_strategy tensor_model_parallel_size val_dataset
"""
TYPES = {"optimizer": FlagType(type="choice", choices=("adam", "sgd"))}
KNOWN = checking.Known(names=frozenset(NAMES.split()), types=TYPES)


def check(settings: Settings, recipe: Recipe, *, is_gang: bool = True) -> None:
    checking.check_recipe(settings, recipe, inputs_of(settings, recipe), is_gang=is_gang)


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
        check(settings, parse(document | change))
    assert no.value.code == Exit.CONFIG
    return str(no.value)


def refused(settings: Settings, **change: Any) -> list[tuple[str, str]]:
    text = refusal(settings, **change)
    found = re.findall(r"(?:^| \\| )([\w.\[\]]+): .*?\[([a-z-]+)\](?= \||;)", text)
    assert len(found) == text.count(" | ") + 1
    return [(path.removeprefix("recipe.args."), id) for path, id in found]


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "known_flags", lambda recipe: KNOWN)


@pytest.mark.parametrize(
    ("seen", "named", "ids"),
    [
        ("4.6.0", "4.4.1", ["swift-version"]),
        ("4.6.0", "4.6.0", []),
        ("4.6.0.dev0", "4.6.0", []),
        ("", "4.4.1", []),  # not installed: other checks say so
        ("4.6.0", "", []),  # recipe.checkFlags: false
    ],
)
def test_an_image_with_another_ms_swift_is_refused(
    monkeypatch: pytest.MonkeyPatch, seen: str, named: str, ids: list[str]
) -> None:
    monkeypatch.setattr(source, "version", lambda package: seen if package == "ms-swift" else "")
    document = {"backend": "megatron", "task": "rlhf", "model": "m", "dataset": ["d"]}
    found = checking.other_swift(parse(document | {"swiftVersion": named}))
    assert [refusal.id for refusal in found] == ids
    assert all(seen in refusal.says and named in refusal.says for refusal in found)


def test_rules_are_those_of_the_installed_ms_swift(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    document: dict[str, Any] = {"backend": "megatron", "task": "rlhf", "model": "m"}
    args = {"num_train_epochs": 1, "tuner_type": "lora", "ref_adapters": ["/a"]}
    recipe = parse(document | {"dataset": ["d"], "args": args})
    for seen, ids in (("4.4.1", ["reference-adapter"]), ("4.6.0", []), ("", ["reference-adapter"])):
        monkeypatch.setattr(source, "version", lambda _, seen=seen: seen)
        monkeypatch.setattr(checking, "core_version", lambda: "0.18.0")
        assert [each.id for each in checking.broken_rules(settings, recipe, None)] == ids


def test_a_sound_recipe_passes(settings: Settings) -> None:
    document = {
        "backend": "megatron",
        "task": "rlhf",
        "model": "hf://o/m@v",
        "dataset": ["d.jsonl"],
        "args": {"num_train_epochs": 1},
    }
    with pytest.raises(LaunchError, match=r"code\.url is empty"):
        check(settings, parse(document))
    check(settings, parse(document | {"dataset": ["hf://o/d@v#100"]}))


@pytest.mark.parametrize("given", ["link.jsonl", "./link.jsonl#7", "a b.jsonl"])
@pytest.mark.parametrize("is_list", [True, False])
def test_a_file_that_is_trained_on_is_not_evaluated_on_by_another_name(
    given: str, is_list: bool, tmp_path: Path, settings: Settings
) -> None:
    for name in ("a.jsonl", "a b.jsonl", "other.jsonl"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    trained = [f"file://{tmp_path}/a.jsonl#100", f"file://{tmp_path}/a b.jsonl"]
    place = f"{tmp_path}/{given}"
    args: dict[str, Any] = {"val_dataset": [place] if is_list else place}
    assert refused(settings, dataset=trained, args=args) == [("val_dataset", "evaluation-trained")]
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://o/m@v", "dataset": trained}
    args = {"num_train_epochs": 1, "val_dataset": f"{tmp_path}/other.jsonl"}
    check(settings, parse({**document, "args": args}))


def test_all_mistakes_are_reported_at_once(settings: Settings) -> None:
    args = {"lrr": "1e-5", "output_dir": "/x", "tensor_model_parallel_size": "3"}
    assert refused(settings, args=args) == [
        ("output_dir", "flag-owned"),
        ("lrr", "flag-unknown"),
        ("recipe.args", "world-model-parallel"),
    ]
    assert "(3 mistakes)" in refusal(settings, args=args)


def test_a_stages_own_pod_does_not_judge_the_sizes_of_the_gang(tmp_path: Path) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_GPUS_PER_NODE": "0"}
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://o/m@v"}
    args = {"tensor_model_parallel_size": "4", "num_train_epochs": "1"}
    recipe = parse(document | {"dataset": ["hf://o/d@v"], "args": args})
    check(from_env(env), recipe, is_gang=False)
    with pytest.raises(LaunchError) as no:
        check(from_env(env), recipe)
    assert no.value.id == "world-model-parallel"


def test_a_secret_is_refused_and_not_repeated(settings: Settings) -> None:
    text = refusal(settings, args={"hub_token": "hf_CANARY"})
    assert "recipe.args.hub_token: " in text and "[flag-secret]" in text
    assert "secrets.hf.existingSecret" in text
    assert "CANARY" not in text


def test_a_flag_of_ms_swift_3_is_reported_todays_name(settings: Settings) -> None:
    text = refusal(settings, args={"max_epochs": "1"})
    assert "num_train_epochs" in text and "[flag-renamed]" in text


def test_a_wrong_source_names_its_key(settings: Settings) -> None:
    assert "recipe.model" in refusal(settings, model="Qwen/Qwen3-30B-A3B")
    assert "recipe.dataset[1]" in refusal(settings, dataset=["hf://o/d@v", "hf://o/d"])


@pytest.mark.parametrize("no", ["no", "No", False, ["no"]])
@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_a_run_that_would_save_nothing_is_refused(
    settings: Settings, backend: str, no: object
) -> None:
    found = refused(settings, backend=backend, args={"save_strategy": no})
    assert ("save_strategy", "nothing-saved") in found


@pytest.mark.parametrize("no", [False, "False", "0", "no"])
def test_a_run_without_safetensors_is_refused(settings: Settings, no: object) -> None:
    found = refused(settings, args={"save_safetensors": no})
    assert found == [("save_safetensors", "nothing-to-export")]


def test_saving_by_steps_or_epochs_passes(settings: Settings) -> None:
    args = {"save_strategy": "epoch", "save_safetensors": True, "num_train_epochs": 1}
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://o/m@v"}
    check(settings, parse(document | {"dataset": ["hf://o/d@v"], "args": args}))


def test_a_value_that_ms_swift_cannot_read_is_refused_once(settings: Settings) -> None:
    args = {"optimizer": "adamw", "lr": "fast", "save_strategy": "no", "micro_batch_size": "2x"}
    assert refused(settings, args=args) == [
        ("save_strategy", "nothing-saved"),
        ("optimizer", "flag-choice"),
        ("micro_batch_size", "size"),
        ("lr", "lr"),
    ]


def test_a_flag_without_a_word_is_refused_as_by_the_chart(settings: Settings) -> None:
    assert refused(settings, args={"lr": ""}) == [("lr", "flag-empty")]


def test_what_needs_no_model_is_reported_with_the_other_mistakes(settings: Settings) -> None:
    found = refused(settings, args={"num_train_epochs": None, "lrr": "1"})
    assert found == [("lrr", "flag-unknown"), ("num_train_epochs", "epochs-missing")]

import re
from dataclasses import replace
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
from tests.launchers.recipes import FIELDS, plain

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
    change["args"] = {"num_train_epochs": 1, **change.get("args", {})}
    with pytest.raises(LaunchError) as no:
        check(settings, parse(FIELDS | change))
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


def test_a_library_that_is_not_mounted_here_is_refused(settings: Settings, tmp_path: Path) -> None:
    (there := tmp_path / "models").mkdir()
    libraries = (there, tmp_path / "model")
    settings = replace(settings, launch=replace(settings.launch, libraries=libraries))
    text = refusal(settings)
    assert "[library-missing]" in text and f"DPO_LIBRARIES={there}:" not in text


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
    found = checking.other_swift(parse(FIELDS | {"swiftVersion": named}))
    assert [refusal.id for refusal in found] == ids
    assert all(seen in refusal.says and named in refusal.says for refusal in found)


def test_rules_are_those_of_the_installed_ms_swift(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = plain(num_train_epochs=1, tuner_type="lora", ref_adapters=["/a"])
    for seen, ids in (("4.4.1", ["reference-adapter"]), ("4.6.0", []), ("", [])):
        monkeypatch.setattr(source, "version", lambda _, seen=seen: seen)
        monkeypatch.setattr(checking, "core_version", lambda: "0.18.0")
        assert [each.id for each in checking.broken_rules(settings, recipe, None)] == ids


def test_a_sound_recipe_passes(settings: Settings) -> None:
    document = {**FIELDS, "args": {"num_train_epochs": 1, "save_strategy": "epoch"}}
    with pytest.raises(LaunchError, match=r"code\.url is empty"):
        check(settings, parse(document | {"dataset": ["d.jsonl"]}))
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
    args = {"num_train_epochs": 1, "val_dataset": f"{tmp_path}/other.jsonl"}
    check(settings, parse({**FIELDS, "dataset": trained, "args": args}))


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (
            {"lrr": "1e-5", "output_dir": "/x", "tensor_model_parallel_size": "3"},
            "output_dir flag-owned, lrr flag-unknown, recipe.args world-model-parallel",
        ),
        (
            {"optimizer": "adamw", "lr": "fast", "save_strategy": "no", "micro_batch_size": "2x"},
            "save_strategy nothing-saved, optimizer flag-choice, micro_batch_size size, lr lr",
        ),
        ({"num_train_epochs": None, "lrr": 1}, "lrr flag-unknown, num_train_epochs epochs-missing"),
        ({"lr": ""}, "lr flag-empty"),
        ({"save_safetensors": False}, "save_safetensors nothing-to-export"),
        ({"save_safetensors": "False"}, "save_safetensors nothing-to-export"),
        ({"save_safetensors": "0"}, "save_safetensors nothing-to-export"),
        ({"save_safetensors": "no"}, "save_safetensors nothing-to-export"),
    ],
)
def test_all_mistakes_are_reported_at_once_and_once(
    settings: Settings, args: dict[str, Any], found: str
) -> None:
    assert ", ".join(map(" ".join, refused(settings, args=args))) == found
    count = found.count(",") + 1
    assert count == 1 or f"({count} mistakes)" in refusal(settings, args=args)


def test_a_stages_own_pod_does_not_judge_the_sizes_of_the_gang(tmp_path: Path) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_GPUS_PER_NODE": "0"}
    recipe = plain(tensor_model_parallel_size="4", num_train_epochs="1")
    check(from_env(env), recipe, is_gang=False)
    with pytest.raises(LaunchError) as no:
        check(from_env(env), recipe)
    assert no.value.id == "world-model-parallel"


@pytest.mark.parametrize(
    ("flag", "id", "says"),
    [
        ("hub_token", "flag-secret", "secrets.hf.existingSecret"),
        ("max_epochs", "flag-renamed", "num_train_epochs"),
    ],
)
def test_a_secret_is_not_repeated_and_an_old_flag_has_todays_name(
    settings: Settings, flag: str, id: str, says: str
) -> None:
    text = refusal(settings, args={flag: "hf_CANARY"})
    assert f"recipe.args.{flag}: " in text and f"[{id}]" in text and says in text
    assert "CANARY" not in text


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

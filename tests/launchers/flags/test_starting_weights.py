"""Weights that policy and reference start from, at the first start and at a resume."""

from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import Recipe
from tests.launchers.flags.commands import MCORE, MODEL, flags, names, saved
from tests.launchers.recipes import plain as recipe


def test_the_reference_is_the_original_model_from_the_start() -> None:
    started = flags(recipe())
    assert started["model"] == started["ref_model"] == str(MODEL)
    assert "mcore_model" not in started


def test_a_converted_model_changes_the_flags_of_policy_and_reference() -> None:
    started = flags(recipe(), mcore=MCORE)
    assert started["mcore_model"] == started["mcore_ref_model"] == str(MCORE)


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
@pytest.mark.parametrize("mcore", [None, MCORE])
@pytest.mark.parametrize("state", [True, False])
def test_a_resume_never_changes_the_reference(
    tmp_path: Path, backend: str, mcore: Path | None, state: bool
) -> None:
    of = recipe(backend, tuner_type="full")
    converted = mcore if backend == "megatron" else None
    resumed = flags(of, mcore=converted, resume=saved(tmp_path, state=state))
    assert resumed["ref_model"] == str(MODEL)
    if converted:
        assert resumed["mcore_ref_model"] == str(MCORE)


def test_megatron_resumes_exactly_when_the_optimizer_was_saved(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, state=True)
    resumed = flags(recipe(), mcore=MCORE, resume=checkpoint)
    assert resumed["mcore_model"] == str(checkpoint.path)
    assert resumed["model"] == str(MODEL)
    assert (resumed["finetune"], resumed["no_load_optim"]) == ("false", "false")


def test_megatron_resumes_from_safetensors_when_there_is_no_optimizer(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, state=False)
    resumed = flags(recipe(no_save_optim=True), mcore=MCORE, resume=checkpoint)
    assert resumed["model"] == str(checkpoint.path)
    assert "mcore_model" not in resumed
    assert resumed["finetune"] == "false"


@pytest.mark.parametrize("mcore", [None, MCORE])
@pytest.mark.parametrize("given", [{"tuner_type": "lora"}, {"adapters": ["/w/a"]}])
def test_an_adapter_is_resumed_with_the_models_own_weights(
    tmp_path: Path, mcore: Path | None, given: dict[str, Any]
) -> None:
    checkpoint = saved(tmp_path, state=True)
    resumed = flags(recipe(**given), mcore=mcore, resume=checkpoint)
    assert resumed["mcore_adapter"] == str(checkpoint.path)
    assert resumed["model"] == str(MODEL)
    assert resumed.get("mcore_model") == (None if mcore is None else str(mcore))
    assert (resumed["finetune"], resumed["no_load_optim"]) == ("false", "false")


@pytest.mark.parametrize("mcore", [None, MCORE])
def test_an_adapter_without_optimizer_is_resumed_from_its_safetensors(
    tmp_path: Path, mcore: Path | None
) -> None:
    checkpoint = saved(tmp_path, state=False)
    of = recipe(tuner_type="lora", no_save_optim=True, adapters=["/w/a"], mcore_adapter="/w/b")
    assert flags(of)["mcore_adapter"] == "/w/b"
    resumed = flags(of, mcore=mcore, resume=checkpoint)
    assert resumed["adapters"] == [str(checkpoint.path)]
    assert "mcore_adapter" not in resumed
    assert resumed["model"] == str(MODEL)
    # with it ms-swift would count from step 0 (trainers/base.py, _load_checkpoint)
    assert "mcore_model" not in resumed
    assert resumed["finetune"] == "false"


@pytest.mark.parametrize(
    ("backend", "given", "loads"),
    [
        ("megatron", {}, False),
        ("megatron", {"tuner_type": "lora"}, True),
        ("megatron", {"adapters": ["/w/a"]}, True),
        ("megatron", {"tuner_type": "lora", "merge_lora": False}, False),
        ("megatron", {"tuner_type": "lora", "merge_lora": True}, False),
        ("transformers", {"tuner_type": "lora"}, False),
    ],
)
def test_an_adapter_is_merged_once_unless_the_user_says_otherwise(
    backend: str, given: dict[str, Any], loads: bool
) -> None:
    found = flags(recipe(backend, **given))
    assert ("merge_last" in names(recipe(backend, **given))) is loads
    assert ("merge_last" in found["callbacks"]) is loads


def test_transformers_resumes_by_its_own_flag(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, state=False)
    resumed = flags(recipe("transformers", tuner_type="full"), resume=checkpoint)
    assert resumed["resume_from_checkpoint"] == str(checkpoint.path)
    assert resumed["model"] == str(MODEL)


@pytest.mark.parametrize(
    "without",
    [
        recipe("transformers"),
        recipe(task="sft"),
        recipe(rlhf_type="rm"),
        recipe(tuner_type="lora"),
    ],
)
def test_no_reference_is_named_where_ms_swift_takes_none(without: Recipe) -> None:
    assert "ref_model" not in flags(without)


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ({}, ["background_save"]),
        ({"merge_lora": True}, ["background_save"]),
        ({"no_save_optim": True}, []),
    ],
)
def test_an_adapter_is_saved_in_the_background_with_safetensors_in_each_save(
    given: dict[str, Any], loaded: list[str]
) -> None:
    found = names(recipe(tuner_type="lora", **given))
    assert [name for name in found if name in ("background_save", "safetensors_last")] == loaded

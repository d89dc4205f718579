"""Weights that policy and reference start from, at the first start and at a resume."""

from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import Recipe
from tests.launchers.flags.commands import MCORE, MODEL, flags, names, saved
from tests.launchers.recipes import plain as recipe


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


EXACT = {"finetune": "false", "no_load_optim": "false"}
REFERENCE = {"ref_model": MODEL, "mcore_ref_model": MCORE}
BOTH = dict.fromkeys(("model", "ref_model"), MODEL)
LORA, GIVEN = recipe(tuner_type="lora"), recipe(adapters=["/w/a"])
WEIGHTS, OTHER = recipe(no_save_optim=True), recipe("transformers", tuner_type="full")
PARTS = recipe(tuner_type="lora", no_save_optim=True, adapters=["/w/a"], mcore_adapter="/w/b")


@pytest.mark.parametrize(
    ("of", "mcore", "state", "wanted", "absent"),
    [
        # state: None at the first start, else whether the optimizer was saved; * is the checkpoint
        (recipe(), None, None, {"model": MODEL, "ref_model": MODEL}, "mcore_model"),
        (recipe(), MCORE, None, {"mcore_model": MCORE, **REFERENCE}, ""),
        (recipe(), MCORE, True, {"mcore_model": "*", "model": MODEL, **EXACT, **REFERENCE}, ""),
        (recipe(), None, True, {"mcore_model": "*", "ref_model": MODEL, **EXACT}, ""),
        (WEIGHTS, MCORE, False, {"model": "*", "finetune": "false", **REFERENCE}, "mcore_model"),
        (WEIGHTS, None, False, {"model": "*", "ref_model": MODEL}, "mcore_model"),
        *(
            (of, mcore, True, {"mcore_adapter": "*", "model": MODEL, **EXACT, **own}, absent)
            for of in (LORA, GIVEN)
            for mcore, own, absent in (
                (None, {}, "mcore_model"),
                (MCORE, {"mcore_model": MCORE}, ""),
            )
        ),
        (PARTS, None, None, {"mcore_adapter": "/w/b"}, ""),
        *(
            # with mcore_model ms-swift would count from step 0 (trainers/base.py, _load_checkpoint)
            (PARTS, mcore, False, {"adapters": ["*"], "model": MODEL, "finetune": "false"}, absent)
            for mcore in (None, MCORE)
            for absent in ("mcore_adapter", "mcore_model")
        ),
        *((OTHER, None, state, {"resume_from_checkpoint": "*", **BOTH}, "") for state in (0, 1)),
    ],
)
def test_weights_of_a_start_and_of_a_resume(
    tmp_path: Path, of: Recipe, mcore: Path | None, state: Any, wanted: dict[str, Any], absent: str
) -> None:
    resume = None if state is None else saved(tmp_path, state=state)
    found = flags(of, mcore=mcore, resume=resume)
    place = str(resume.path) if resume else ""
    for name, value in wanted.items():
        expected = [place] if value == ["*"] else str(value).replace("*", place)
        assert found[name] == expected, name
    assert absent not in found


@pytest.mark.parametrize(
    "without",
    [recipe("transformers"), recipe(task="sft"), recipe(rlhf_type="rm"), recipe(tuner_type="lora")],
)
def test_no_reference_is_named_where_ms_swift_takes_none(without: Recipe) -> None:
    assert "ref_model" not in flags(without)


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ({}, ["background_save", "safetensors_last"]),
        ({"save_safetensors": True}, ["background_save"]),
        ({"merge_lora": True}, ["background_save"]),
        ({"no_save_optim": True}, []),
    ],
)
def test_an_adapter_is_saved_in_the_background_and_exported_once(
    given: dict[str, Any], loaded: list[str]
) -> None:
    found = names(recipe(tuner_type="lora", **given))
    assert [name for name in found if name in ("background_save", "safetensors_last")] == loaded

"""Bytes that a run writes to the workspace."""

from dataclasses import replace
from typing import Any

import pytest

from launchers.config.recipe import Saving
from launchers.plan import footprint
from launchers.plan.footprint import Footprint
from launchers.plan.parameters import IN_PEFT, whole
from launchers.plan.training_job import Training, parse
from tests.launchers.recipes import MODEL_CONFIG, recipe


def files_of(*, convert: bool = False, saving: Saving = "background", **args: Any) -> Footprint:
    made = replace(recipe(**args), saving=saving)
    return footprint.predict_footprint(made, training(**args), MODEL_CONFIG, convert=convert)


def training(**args: Any) -> Training:
    return parse(recipe(**args), nodes=2, gpus_per_node=8)


NARROW: dict[str, Any] = {"exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"}
NARROW |= {"use_precision_aware_optimizer": True}
"""The tuned profile's optimizer."""


def test_an_exact_checkpoint_holds_weights_and_the_optimizer() -> None:
    files = files_of(save_total_limit=2, save_steps=25)
    assert files.checkpoint == 14 * MODEL_CONFIG.parameters
    assert (files.every, files.kept, files.is_exact) == (25, 2, True)
    # while the third is written the first is still there; the last one has safetensors too
    assert files.exported == files.model
    assert files.needed == 2 * files.model + 3 * files.checkpoint


@pytest.mark.parametrize(
    ("changes", "bytes_each"),
    [
        ({}, 8),
        ({"exp_avg_sq_dtype": "fp32"}, 10),
        ({"exp_avg_dtype": "fp16"}, 10),
        ({"dist_ckpt_optim_fully_reshardable": True}, 14),
        ({"optimizer_cpu_offload": True}, 14),
    ],
)
def test_narrow_moments_and_half_masters_are_saved_as_they_are(
    changes: dict[str, Any], bytes_each: int
) -> None:
    assert files_of(**NARROW | changes).checkpoint == bytes_each * MODEL_CONFIG.parameters


def test_each_checkpoint_has_safetensors_where_one_is_asked_for() -> None:
    files = files_of(save_safetensors=True, save_total_limit=2)
    assert (files.checkpoint, files.exported) == (16 * MODEL_CONFIG.parameters, 0)
    assert files.needed == files.model + 3 * files.checkpoint


def test_a_save_holds_training_for_the_copy_alone() -> None:
    files = files_of(**NARROW)
    assert files.copied == 8 * MODEL_CONFIG.parameters // 16
    assert files.hold_seconds == files.copied / footprint.COPY_BYTES_PER_SECOND < 5
    assert files.save_seconds > 300
    waits = files_of(**NARROW, save_safetensors=True)
    assert waits.hold_seconds > waits.model / footprint.WRITE_BYTES_PER_SECOND
    blocking = files_of(**NARROW, no_save_optim=True)
    assert (blocking.copied, blocking.hold_seconds) == (0, blocking.save_seconds)


@pytest.mark.parametrize("given", [{}, {"save_safetensors": True}, {"merge_lora": True}])
def test_a_save_of_an_adapter_holds_training_for_what_it_gathers(given: dict[str, Any]) -> None:
    files, lora = files_of(tuner_type="lora", **given), training(tuner_type="lora")
    assert files.copied == 14 * whole(MODEL_CONFIG, lora) // 16
    gathered = 2 * whole(MODEL_CONFIG, lora, IN_PEFT)
    assert (files.exported, files.gathered) == ((0, gathered) if given else (gathered, 0))
    seconds = files.hold_seconds - files.copied / footprint.COPY_BYTES_PER_SECOND
    merged = files.model if "merge_lora" in given else 0
    assert seconds == pytest.approx((files.gathered + merged) / footprint.WRITE_BYTES_PER_SECOND)


def test_a_blocking_save_holds_training_until_it_is_written() -> None:
    files = files_of(saving="blocking", **NARROW)
    assert files.hold_seconds == files.save_seconds == files.saved / 0.8e9


def test_a_checkpoint_without_optimizer_is_the_weights() -> None:
    files = files_of(no_save_optim=True, convert=True)
    assert files.checkpoint == files.model == files.converted == 2 * MODEL_CONFIG.parameters
    assert not files.is_exact


@pytest.mark.parametrize("exact", [True, False])
def test_an_adapters_checkpoint_holds_nothing_of_the_model(exact: bool) -> None:
    files = files_of(tuner_type="lora", no_save_optim=not exact)
    lora = training(tuner_type="lora")
    own, in_peft = whole(MODEL_CONFIG, lora), whole(MODEL_CONFIG, lora, IN_PEFT)
    assert files.checkpoint == (14 * own if exact else 2 * in_peft)
    assert files.exported == exact * 2 * in_peft
    assert files.checkpoint < 0.02 * 16 * MODEL_CONFIG.parameters
    assert files.is_exact is exact


@pytest.mark.parametrize(
    ("merge", "merges", "models"),
    [({}, "last", 1), ({"merge_lora": True}, "every", 3), ({"merge_lora": False}, "never", 0)],
)
def test_the_models_that_an_adapter_is_merged_into_need_room(
    merge: dict[str, Any], merges: str, models: int
) -> None:
    files = files_of(tuner_type="lora", save_total_limit=2, **merge)
    assert files.merges == merges
    assert files.merged == (files.model if models else 0)
    assert files.checkpoints == 3 * files.checkpoint + files.exported + models * files.model
    assert files.needed == files.model + files.checkpoints
    assert files.saved == files.checkpoint + (files.model if merges == "every" else 0)


def test_nothing_is_merged_where_all_parameters_are_trained() -> None:
    files = files_of(save_total_limit=2, merge_lora=True)
    assert (files.merges, files.merged, files.saved) == ("never", 0, files.checkpoint)


@pytest.mark.parametrize("tuner", ["full", "lora"])
def test_without_a_limit_the_need_is_unknown(tuner: str) -> None:
    files = files_of(tuner_type=tuner, save_steps=500)
    assert files.needed is files.checkpoints is None


def test_steps_are_ms_swifts_default_and_unknown_by_epoch() -> None:
    assert files_of().every is None  # by time
    assert footprint.save_every(replace(recipe(), save_minutes=0.0)) == 500
    assert footprint.kept(recipe()) == 2
    assert footprint.kept(replace(recipe(), save_minutes=0.0)) is None
    assert files_of(save_strategy="epoch").every is None

"""The plan of a run, and its document."""

import json
import re
from dataclasses import replace
from typing import Any, Literal

import pytest

from launchers.config.recipe import Saving, parse
from launchers.plan import document as plan_document
from launchers.plan.footprint import SAVE_SHARE
from launchers.plan.plan import NO_DATA, NO_GPU_MODEL, build
from launchers.plan.run_length import Data
from tests.launchers.recipes import FIELDS, job, recipe

ONCE: Literal["precomputed"] = "precomputed"
PAIRS = Data(pairs=40_000, tokens=2048, source="test")


def document_of(**fields: Any) -> dict[str, Any]:
    return plan_document.document(build(job(**fields)))


def test_everything_is_predicted_when_everything_is_known() -> None:
    plan = build(job(recipe=recipe(num_train_epochs=1, split_dataset_ratio=0.01), data=PAIRS))
    assert plan.unknown == {}
    document = plan_document.document(plan)
    assert None not in document.values()
    evaluation, length, speed = document["evaluation"], document["length"], document["speed"]
    assert evaluation["held_out"] == 400 >= evaluation["evaluated"] > 300
    assert 0 < evaluation["seconds"] < speed["step_seconds"]
    evaluates = evaluation["count"] * evaluation["seconds"] / length["hours"] / 3600
    assert evaluation["share"] == pytest.approx(1 - 1 / (1 + evaluates), abs=1e-3)
    memory = document["memory"]
    assert memory["total_gib"] == pytest.approx(sum(memory["items"].values()), abs=0.01)
    seconds = length["steps"] * speed["step_seconds"]
    assert length["hours"] == pytest.approx(seconds / 3600, rel=0.01)
    assert length["gpu_hours"] == pytest.approx(seconds / 3600 * 16, rel=0.01)
    assert length["low_hours"] < length["hours"] < length["high_hours"]
    assert speed["low_seconds"] < speed["step_seconds"] < speed["high_seconds"]


def test_too_few_held_out_rows_are_reported() -> None:
    few = replace(PAIRS, pairs=1000)
    found = build(job(recipe=recipe(num_train_epochs=1, split_dataset_ratio=0.001), data=few))
    assert found.evaluations is None
    assert found.unknown["evaluation"].endswith("1 held-out rows are fewer than the 8 of a round")


def test_a_reference_taken_once_is_no_memory_and_a_pass_before_the_steps() -> None:
    online = recipe(num_train_epochs=3)
    made = [build(job(recipe=r, data=PAIRS)) for r in (online, replace(online, reference=ONCE))]
    before, after = map(plan_document.document, made)
    assert after["unknown"] == {}
    assert (before["recipe"]["reference"], after["recipe"]["reference"]) == ("online", ONCE)
    assert before["memory"]["items"]["reference"] > 0 == after["memory"]["items"]["reference"]
    assert before["length"]["reference_hours"] == 0 < after["length"]["reference_hours"]
    steps = after["length"]["steps"] * after["speed"]["step_seconds"] / 3600
    whole = steps + after["length"]["reference_hours"]
    assert after["length"]["hours"] == pytest.approx(whole, rel=0.01)
    assert after["length"]["hours"] < before["length"]["hours"]


def test_the_document_lists_the_checkpoints_with_a_merged_model() -> None:
    adapter = document_of(recipe=recipe(tuner_type="lora"))["footprint"]
    assert (adapter["merged"], adapter["merges"]) == (adapter["model"], "last")
    full = document_of()["footprint"]
    assert (full["merged"], full["merges"]) == (0, "never")


def test_without_a_gpu_model_there_is_memory_and_no_speed() -> None:
    document = document_of(gpu_model="", recipe=recipe(train_iters=7))
    assert document["speed"] is None
    assert document["unknown"] == {"speed": NO_GPU_MODEL}
    assert document["memory"]["total_gib"] > 0
    assert document["memory"]["card_gib"] is document["memory"]["free_gib"] is None


def test_without_sizes_the_layout_stays_and_the_reason_is_reported() -> None:
    document = document_of(model_config=None, model_config_source="nobody knows")
    assert document["model"] is document["memory"] is document["speed"] is None
    assert document["layout"]["stage_layers"] is None
    assert document["unknown"]["memory"] == "nobody knows"
    assert document["unknown"]["length"] == NO_DATA


def test_another_backend_is_reported_and_not_predicted() -> None:
    document = document_of(recipe=parse(FIELDS | {"backend": "transformers"}))
    assert document["layout"] is document["training"] is document["memory"] is None
    assert "megatron only" in document["unknown"]["training"]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("micro_batch_size", "one"),
        ("pipeline_model_parallel_size", 5),
        ("pipeline_model_parallel_size", 0),
        ("tensor_model_parallel_size", 32),
        ("save_steps", "often"),
        ("split_dataset_ratio", "some"),
    ],
)
def test_a_recipe_that_cannot_be_read_gives_a_plan_with_a_reason(flag: str, value: object) -> None:
    made = recipe(**{flag: value, "num_train_epochs": 1})
    plan = build(job(recipe=made, data=PAIRS))
    assert plan.unknown
    reasons = " ".join(plan.unknown.values())
    assert flag in reasons or "not a multiple of the parallel sizes" in reasons
    json.dumps(plan_document.document(plan))


def keys(content: object) -> set[str]:
    """All keys of a document but those that the data name."""
    if isinstance(content, list):
        return set().union(*map(keys, content))
    if not isinstance(content, dict):
        return set()
    named = {"args", "items", "communication", "spread", "unknown", "stages"}
    below = [keys(value) for key, value in content.items() if key not in named]
    return set(content).union(*below)


def test_every_key_of_the_document_is_described() -> None:
    made = recipe(num_train_epochs=1, save_total_limit=2)
    one, again = (document_of(recipe=made, data=PAIRS) for _ in range(2))
    assert keys(one) <= set(re.findall(r"\w+", plan_document.__doc__ or ""))
    assert json.dumps(one) == json.dumps(again)


def test_a_stop_ends_a_step_and_writes_a_checkpoint() -> None:
    plan = build(job(recipe=recipe()))
    assert plan.speed is not None and plan.footprint is not None
    seconds = plan.footprint.saved / 0.8e9
    assert plan.stop_seconds == plan.speed.step_seconds + seconds
    document = plan_document.document(plan)
    assert document["speed"]["step_seconds"] == round(plan.speed.step_seconds, 3)
    written = document["footprint"]
    assert written["save_seconds"] == round(seconds)
    assert written["stop_seconds"] == round(plan.stop_seconds)


def test_work_that_a_cut_loses_is_the_steps_between_two_checkpoints() -> None:
    plan = build(job(recipe=recipe(save_steps=25)))
    assert plan.speed is not None and plan.lost_seconds == 25 * plan.speed.step_seconds
    assert build(job(recipe=recipe(save_strategy="epoch"))).lost_seconds is None


@pytest.mark.parametrize("saving", ["background", "blocking"])
def test_saves_by_time_are_planned_with_their_cost(saving: Saving) -> None:
    narrow = {"use_precision_aware_optimizer": True, "exp_avg_dtype": "bf16"}
    made = recipe(**narrow, exp_avg_sq_dtype="bf16")
    plan = build(job(recipe=replace(made, saving=saving)))
    files = plan.footprint
    assert plan.speed is not None and files is not None and files.every is None
    assert plan.save_interval is not None and plan.lost_seconds is not None
    assert plan.save_share == files.hold_seconds / (files.hold_seconds + plan.save_interval)
    assert plan.save_share <= SAVE_SHARE * 1.0001
    is_cheap = saving == "background"  # 244 GB at 0.8 GB/s stop training for 5 minutes
    assert (plan.lost_seconds <= 900.001) is is_cheap
    written = plan_document.document(plan)["footprint"]
    assert written["interval_seconds"] == round(plan.save_interval)
    assert written["save_share"] == round(plan.save_share, 4) > 0

"""A run with a budget ends with a checkpoint and an export; a larger budget trains on."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launchers.config import budget
from launchers.exits import Exit, LaunchError
from tests.launchers.pods import Pods


def test_a_spent_budget_exports_the_last_checkpoint_of_all_ranks_and_a_larger_one_trains_on(
    pods: Pods,
) -> None:
    pods.train = "0.1:save,1.1:hang"
    by = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 6, UTC).isoformat()
    outputs = pods.ended(DPO_BUDGET_BY=by)
    assert all("training ended early" in output for output in outputs)
    progress = pods.progress()
    assert progress["state"] == "succeeded" and progress["why"] == "budget.by"
    assert (pods.run / "export" / "model.safetensors").exists()
    pods.ended(DPO_BUDGET_BY=by)
    assert not (pods.run / "attempts" / "2").exists()  # this budget is spent
    assert pods.progress()["held_seconds"] > progress["held_seconds"] > 3
    pods.ended(DPO_BUDGET_GPU_MINUTES="99")
    assert "--resume_from_checkpoint" in pods.argv(0, attempt=2)
    assert pods.progress()["why"] == ""


def test_a_budget_that_ends_before_the_first_checkpoint_is_a_user_error(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:hang")
    pods.ended(Exit.CONFIG, DPO_BUDGET_BY="2026-01-01T00:00:00Z")
    assert pods.message(0)["id"] == "budget-no-checkpoint"
    assert not (pods.run / "export").exists()


def test_a_start_that_was_killed_counts_until_its_last_write(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:hang")
    pods.run.mkdir(parents=True)
    killed = {"held_seconds": 3595.0, "state": "running"}
    (pods.run / "progress.json").write_text(json.dumps(killed))
    pods.ended(Exit.CONFIG, DPO_BUDGET_GPU_MINUTES="60")
    assert pods.progress()["held_seconds"] >= 3605  # and 10 s: nothing is left to train
    pods.train = "0:succeed"
    pods.ended(DPO_BUDGET_GPU_MINUTES="120")
    assert pods.progress()["held_seconds"] > 3605
    (pods.run / "progress.json").write_text("{")  # what is spent is not known
    pods.ended(Exit.IO, DPO_BUDGET_GPU_MINUTES="120")
    assert pods.message(0)["id"] == "file-torn"
    assert (pods.run / "progress.json").read_text() == "{"


@pytest.mark.parametrize(
    ("setting", "id"),
    [
        ("DPO_BUDGET_GPU_MINUTES=-1", "env-integer"),
        ("DPO_BUDGET_GPU_MINUTES=1.5", "env-integer"),
        ("DPO_BUDGET_BY=08:00", "env-time"),
        ("DPO_BUDGET_BY=2026-12-01T08:00", "env-time"),
    ],
)
def test_a_budget_of_another_form_is_refused(setting: str, id: str) -> None:
    name, _, given = setting.partition("=")
    with pytest.raises(LaunchError) as caught:
        budget.from_env({name: given})
    assert (caught.value.code, caught.value.id) == (Exit.CONFIG, id)

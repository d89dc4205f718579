"""`helm test` verifies the run of this release: real launchers with a fake torch and ms-swift."""

import base64
import gzip
import json
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit
from launchers.metrics import writer
from launchers.run.verify import CLOCK_SKEW_SECONDS
from tests.launchers.pods import PAIR, Pods, end
from tests.launchers.run.test_signals import read_until


def install(pods: Pods, at: float) -> None:
    """Write Helm's record of a release that was installed at a time."""
    when = datetime.fromtimestamp(at, UTC).isoformat()
    text = json.dumps({"info": {"first_deployed": when}})
    (pods.folder / "release").write_bytes(base64.b64encode(gzip.compress(text.encode())))


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    """Return the pods of a release that was installed just now."""
    made = Pods(tmp_path, nodes=1)
    install(made, time.time())
    return made


@pytest.fixture
def ended(pods: Pods) -> Pods:
    """Return the same after a run that succeeded."""
    assert pods.all()[0][0] == 0
    return pods


def options(pods: Pods, deadline: int) -> dict[str, str]:
    record = pods.folder / "release"
    return {"DPO_TEST_DEADLINE": str(deadline), "DPO_RELEASE_RECORD": str(record)}


def start(pods: Pods, deadline: int) -> subprocess.Popen[str]:
    return pods.start(0, "verify", **options(pods, deadline))


def verify(pods: Pods, code: Exit = Exit.OK, /, **change: str) -> str:
    return pods.alone("verify", code, **options(pods, 1) | change)


def rewrite(pods: Pods, change: Callable[[dict[str, Any]], None]) -> None:
    document = pods.progress()
    change(document)
    (pods.run / "progress.json").write_text(json.dumps(document))


def test_a_run_that_exports_its_best_checkpoint_is_proved(pods: Pods) -> None:
    (pods.folder / "sources" / "pairs.jsonl").write_text(PAIR * 4)
    pods.write_recipe(export="best", args={"tuner_type": "full", "split_dataset_ratio": "0.5"})
    one = Evaluation(step=3, total=3, attempt=1, time=0.0, seconds=1.0, values={"loss": 0.4})
    writer.append(pods.run / "metrics.jsonl", evaluations.line(one))
    pods.ended()
    verify(pods)


def test_a_run_that_succeeded_is_proved_and_its_evaluations_are_reported(ended: Pods) -> None:
    one = {"step": 3, "loss": 0.4, "accuracy": 0.9, "margin": 1.5}
    held_out = {"first": {**one, "step": 0}, "last": one, "best": one, "by": "loss"}
    rewrite(ended, lambda d: d.update(training={"held_out": held_out}))
    output = verify(ended)
    assert "run verified" in output
    assert f"export={ended.run / 'export'} files=3 bytes=" in output
    assert "held out, first evaluation step=0 loss=0.4 accuracy=0.9 margin=1.5" in output
    assert "held out, best evaluation step=3 loss=0.4 accuracy=0.9 margin=1.5 by=loss" in output


def test_it_waits_for_the_end(pods: Pods) -> None:
    waiting = start(pods, deadline=30)
    time.sleep(1)
    assert waiting.poll() is None
    assert pods.all()[0][0] == 0
    code, output = end(waiting)
    assert code == Exit.OK, output
    assert 'waiting for the run seen="not started"' in output


def test_a_run_that_finds_itself_up_to_date_counts(pods: Pods) -> None:
    pods.ended()
    time.sleep(CLOCK_SKEW_SECONDS + 0.1)
    install(pods, time.time())
    verify(pods, Exit.UNAVAILABLE)
    pods.ended()
    assert pods.progress()["stages"]["train"]["state"] == "up to date"
    verify(pods)


def test_a_users_error_is_reported_at_once_with_its_code(pods: Pods) -> None:
    pods.train = "0:fail:ValueError: heads must be divisible"
    pods.ended(Exit.CONFIG)
    begin = time.monotonic()
    output = verify(pods, Exit.CONFIG, DPO_TEST_DEADLINE="30")
    assert time.monotonic() - begin < 10
    assert "run r failed in train with exit code 78: ValueError: heads must be div" in output
    assert "correct the recipe or plugin" in output
    assert "heads must be divisible" in pods.message(0)["cause"]


def test_a_fault_may_be_fixed_by_a_restart(pods: Pods) -> None:
    pods.train = "0:kill:9"
    pods.ended(Exit.PEER)
    output = verify(pods, Exit.UNAVAILABLE)
    assert "failed in train with exit code 1: a training process was killed by SIGKILL" in output
    assert "the JobSet restarts it" in output
    waiting = start(pods, deadline=30)
    pods.train = ""
    assert pods.all()[0][0] == 0
    assert end(waiting)[0] == Exit.OK


def test_a_run_under_way_is_reported_with_its_step(ended: Pods) -> None:
    rewrite(ended, lambda d: d.update(state="running", stage="train"))
    row = json.dumps({"loss": 1, "global_step/max_steps": "34/107"})
    (ended.run / "checkpoints" / "logging.jsonl").write_text(row + "\n")
    output = verify(ended, Exit.UNAVAILABLE)
    assert "run r after 1 s: in train, step 34" in output
    assert "test.deadlineSeconds" in output


@pytest.mark.parametrize("damage", ["remove", "truncate", "content", "marker", "recipe"])
def test_an_export_that_is_not_what_the_run_left_is_no_proof(ended: Pods, damage: str) -> None:
    marker = ended.run / "export" / ".complete.json"
    weights = marker.with_name("model.safetensors")
    if damage in ("remove", "truncate", "content"):
        weights.unlink()
    if damage in ("truncate", "content"):
        weights.write_bytes(b"" if damage == "truncate" else b"WEIGHTS")
    if damage == "marker":
        marker.unlink()
    if damage == "recipe":
        document = json.loads(marker.read_text())
        document["inputs"]["recipe"] = "other"
        marker.write_text(json.dumps(document))
    code = Exit.INPUT_MISSING if damage in ("marker", "recipe") else Exit.IO
    assert "run verified" not in verify(ended, code)


def test_skipped_training_is_proved_by_what_was_prepared(pods: Pods) -> None:
    skip = {"SKIP_TRAIN": "1"}
    pods.ended(**skip)
    assert "run verified: SKIP_TRAIN=1 outputs=2" in verify(pods, **skip)
    [model] = (pods.folder / "workspace" / "models").rglob("model.safetensors")
    model.unlink()
    verify(pods, Exit.IO, **skip)
    next((pods.folder / "workspace" / "models").rglob(".complete.json")).unlink()
    verify(pods, Exit.INPUT_MISSING, **skip)


def test_sigterm_ends_it_at_once(pods: Pods) -> None:
    waiting = start(pods, deadline=60)
    read_until(waiting, "waiting for the run")
    begin = time.monotonic()
    waiting.send_signal(signal.SIGTERM)
    assert end(waiting)[0] == Exit.TERMINATED
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda pods: install(pods, time.time() + 60), Exit.UNAVAILABLE, "a run that began"),
        (
            lambda pods: pods.write_recipe(args={"learning_rate": "2e-3"}),
            Exit.UNAVAILABLE,
            "progress.json belongs to another recipe or launcher",
        ),
        (
            lambda pods: (pods.run / "progress.json").write_text('{"state": "succ'),
            Exit.UNAVAILABLE,
            "not started",
        ),
        (lambda pods: (pods.folder / "release").unlink(), Exit.OK, "no record of the Helm release"),
    ],
    ids=["later release", "another recipe", "torn progress", "no record"],
)
def test_only_a_success_of_this_release_counts(
    ended: Pods, change: Callable[[Pods], object], code: Exit, said: str
) -> None:
    change(ended)
    assert said in verify(ended, code)

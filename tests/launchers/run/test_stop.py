"""SIGTERM during training: two real launchers with the real ms-swift on CPU save and stop."""

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit
from launchers.metrics import reader
from launchers.storage import checkpoint
from launchers.system.process import descendants
from scripts.demo.sources import Sources
from tests.launchers.run.trained import STEPS, Trained, stopped
from tests.launchers.training_environment import needs_training

pytestmark = needs_training


@pytest.fixture(scope="module")
def undisturbed(
    given: Sources, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, float]]:
    pods = Trained(tmp_path_factory.mktemp("undisturbed"), given=given)
    pods.complete()
    assert [step for step, _ in pods.losses()] == list(range(1, STEPS + 1))
    return pods.losses()


@pytest.mark.parametrize("who", ["rank 0", "rank 1", "every process"])
def test_a_gang_saves_its_step_on_sigterm(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]], who: str
) -> None:
    """``every process``: of both hosts, as Slurm preempts a job; data loader workers are killed
    by a SIGTERM that is not blocked, and the trainer with them."""
    pods = Trained(tmp_path, given=given, slow={"STEP": 0.3}, args={"dataloader_num_workers": 2})
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(4)
    before = len(pods.losses())
    signalled = [started[who == "rank 1"].pid]
    if who == "every process":
        signalled = [pid for each in started for pid in (each.pid, *descendants(each.pid))]
        assert len(signalled) >= 2 * 5  # launcher, torchrun, worker, two of its data loader
    for pid in signalled:
        os.kill(pid, signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    saved = pods.saved()
    assert before <= saved <= before + 2
    assert pods.losses() == undisturbed[:saved]
    assert [pods.message(rank)["id"] for rank in (0, 1)] == ["preempted"] * 2
    assert pods.progress()["code"] == Exit.PREEMPTED

    pods.complete()
    assert pods.losses() == undisturbed  # no step is lost, none is trained twice


def test_a_spent_budget_ends_a_gang_with_a_sealed_checkpoint_and_its_export(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    pods = Trained(tmp_path, given=given, slow={"STEP": 0.3})
    began = time.monotonic()
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(1)
    seconds = time.monotonic() - began
    started[0].send_signal(signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    first = pods.saved()
    pods.slow = {"STEP": seconds / 4}  # the budget ends after the start, and before the last step
    by = datetime.fromtimestamp(time.time() + 2 * seconds, UTC).isoformat()
    pods.complete(DPO_BUDGET_BY=by)
    progress = pods.progress()
    assert (progress["state"], progress["why"]) == ("succeeded", "budget.by")
    saved = checkpoint.newest(pods.run / "checkpoints")
    assert first and saved and first < saved.step < STEPS
    assert pods.losses() == undisturbed[: saved.step]
    weights = pods.run / "export" / "model.safetensors"
    assert weights.read_bytes() == (saved.path / "model.safetensors").read_bytes()


def test_a_save_in_progress_is_finished_and_no_step_follows(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, args={"save_steps": 3}, slow={"SAVE": 4})
    pod = pods.start(0)
    pods.wait_for_sign("save-3")
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.PREEMPTED], pods.said()
    assert time.monotonic() - begin > 2
    assert pods.saved() == 3
    assert [step for step, _ in pods.losses()] == [1, 2, 3]


def test_a_save_that_outlasts_the_grace_period_is_given_up(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, slow={"SAVE": 300.0, "STEP": 0.3})
    pod = pods.start(0, DPO_GRACE_SECONDS="20")
    pods.wait_for_step(2)
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.TERMINATED], pods.said()
    assert 15 <= time.monotonic() - begin < 20
    assert list((pods.run / "checkpoints").glob("checkpoint-*"))  # half a checkpoint
    assert pods.saved() == 0


def test_a_second_signal_ends_a_save_at_once(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, slow={"SAVE": 300, "STEP": 0.3})
    pod = pods.start(0)
    pods.wait_for_step(2)
    pod.send_signal(signal.SIGTERM)
    pods.wait_for(lambda: list(pods.signs.glob("save-*")), "save")
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.TERMINATED], pods.said()
    assert time.monotonic() - begin < 5


HELD_OUT = {"eval_strategy": "steps", "split_dataset_ratio": 0.25, "max_steps": 6}
HELD_OUT |= {"per_device_eval_batch_size": 2}


def evaluated(pods: Trained) -> list[tuple[int, float | None]]:
    found = reader.read(pods.run / "metrics.jsonl", Evaluation)
    return [(each.step, each.values["loss"]) for each in found]


def test_an_evaluation_is_left_and_its_step_saved(tmp_path: Path, given: Sources) -> None:
    """Also the one after the last step; the losses are those of a run that was not stopped."""
    args = HELD_OUT | {"eval_steps": 3}
    whole = Trained(tmp_path / "whole", given=given, args=args)
    whole.complete()
    pods = Trained(tmp_path / "stopped", given=given, args=args, slow={"EVALUATION": 3})
    for step in (3, 6):
        started = [pods.start(rank) for rank in (0, 1)]
        pods.wait_for_sign(f"evaluation-{step}")
        begin = time.monotonic()
        started[step // 4].send_signal(signal.SIGTERM)
        assert stopped(pods, started) == [Exit.PREEMPTED] * 2, pods.said()
        assert pods.saved() == step
        said = [
            path.read_text() for path in pods.run.rglob("stdout.log")
        ]  # torchrun may not copy it all
        assert any("training stopped" in each for each in said)
        print(f"SIGTERM to the end, evaluation after step {step}: {time.monotonic() - begin:.1f} s")
    assert pods.losses() == whole.losses()[:6]
    pods.complete()
    assert pods.losses() == whole.losses()
    assert [step for step, _ in evaluated(whole)] == [0, 3, 6]
    assert evaluated(pods) == evaluated(whole)  # each of the two by the attempt after
